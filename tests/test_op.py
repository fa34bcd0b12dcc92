import inspect

import numpy as np
import pytest

from vtcore.errors import ArgumentError, OpError
from vtcore.op import REGISTRY, RUNNER, Op, Tolerance, op
from vtcore.ops import add, linear, rms_norm, top_k


def none_sampled(rng):
    return iter(())


def none_wrong():
    return iter(())


@pytest.fixture
def define():
    """The @op decorator; what a test registers goes away with it."""
    before = dict(REGISTRY)
    yield lambda signature, **more: op(signature, samples=none_sampled, errors=none_wrong, **more)
    REGISTRY.clear()
    REGISTRY.update(before)


def test_the_readme_s_call():
    assert rms_norm(np.ones((2, 8), "f4"), np.ones(8, "f4"), eps=1e-6).shape == (2, 8)


def test_bind_names_the_arguments_and_fills_defaults():
    call = linear.bind(1, weight=2)
    assert call == {"x": 1, "weight": 2, "bias": None}


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((), {}, "linear takes x, weight, bias=None; it was given 0 positional and no named arguments"),
        ((1,), {}, "given 1 positional"),
        ((1, 2, 3, 4), {}, "given 4 positional"),
        ((1, 2), {"weight": 3}, "given 2 positional and weight arguments"),
        ((1, 2), {"wieght": 3}, "given 2 positional and wieght arguments"),
    ],
)
def test_a_call_with_other_arguments_says_what_the_op_takes(args, kwargs, words):
    with pytest.raises(OpError) as raised:
        linear(*args, **kwargs)
    assert words in str(raised.value)
    assert isinstance(raised.value, ArgumentError)
    assert isinstance(raised.value, ValueError)


@pytest.mark.parametrize("k", [2.0, True, None, np.int64(2), "2"])
def test_a_number_must_be_python_s_of_its_kind(k):
    with pytest.raises(OpError, match=r"top_k: k is .*; it must be a Python int"):
        top_k(np.ones((2, 8), np.float32), k)


def test_an_int_may_stand_for_a_float():
    assert rms_norm(np.ones((1, 4), np.float32), None, eps=0).tolist() == [[1, 1, 1, 1]]


def test_an_op_runs_where_its_context_says():
    seen = []
    token = RUNNER.set(lambda op, call: seen.append((op.name, sorted(call))))
    try:
        assert add("x", "y") is None
    finally:
        RUNNER.reset(token)
    assert seen == [("add", ["x", "y"])]


def test_a_definition_makes_an_op(define):
    @define("x[... H] -> [H], [k]:i", tolerance=Tolerance({"float32": 1e-6, "float16": 1e-3}, "made up"))
    def toy(x, k: int = 2):
        """Toy."""
        return x.sum(0), np.arange(k, dtype=np.int32)

    assert isinstance(toy, Op)
    assert REGISTRY["toy"] is toy
    assert toy.__doc__ == "Toy."
    assert toy.scalars == {"k": "int"}
    assert toy.parameters == {"x": inspect.Parameter.empty, "k": 2}
    assert toy(np.ones((3, 2), np.float32))[0].tolist() == [3, 3]
    sizes = toy.validate(toy.bind(np.ones((3, 2), np.float32), k=5))
    assert [s for s, _ in toy.signature.shapes(sizes)] == [(2,), (5,)]
    assert toy.tolerance.of("float16") == 1e-3
    assert toy.tolerance.of("bfloat16") == 1e-6


def test_annotations_may_be_types_or_their_names(define):
    def quoted(x, eps: "float"):
        return x

    def plain(x, eps: float):
        return x

    assert define("x[N] -> [N]")(quoted).scalars == define("x[N] -> [N]")(plain).scalars == {"eps": "float"}


def test_rules_beyond_the_signature(define):
    @define("x[N] -> [N]", check=lambda x: "N is odd" if x.shape[0] % 2 else None)
    def even(x):
        return x.copy()

    assert even(np.ones(4, np.float32)).shape == (4,)
    with pytest.raises(OpError, match=r"^even: N is odd$"):
        even(np.ones(3, np.float32))


def test_a_definition_knows_infinity_without_warning(define, recwarn):
    @define("x[N] -> [N]")
    def inverse(x):
        return 1 / x

    assert inverse(np.zeros(1, np.float32)).tolist() == [np.inf]
    assert not recwarn.list


def test_a_name_is_defined_once(define):
    def add(x):
        return x

    with pytest.raises(ValueError, match=r"op 'add' is defined twice: in tests.test_op and in vtcore.ops.elementwise"):
        define("x[N] -> [N]")(add)


@pytest.mark.parametrize(
    ("signature", "more", "named"),
    [
        ("x[N], z[N] -> [N]", {}, "z"),
        ("x[N] -> [M]", {}, "M"),
        ("x[N] -> [N]", {"writes": ("pages",)}, "pages"),
        ("x[N] -> [N]", {"touches": {"slots": lambda **_: None}}, "slots"),
    ],
)
def test_a_signature_speaks_of_the_function_s_parameters(define, signature, more, named):
    def toy(x):
        return x

    with pytest.raises(ValueError, match=f"op 'toy' declares {named}, which its function doesn't take"):
        define(signature, **more)(toy)
    assert "toy" not in REGISTRY
