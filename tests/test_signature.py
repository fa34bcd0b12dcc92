import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtcore.errors import OpError
from vtcore.quant.blocks import FORMATS, Blocks
from vtcore.signature import Signature


def f4(*shape):
    return np.zeros(shape, np.float32)


def bind(text, **call):
    return Signature.parse(text).bind("op", call)


def shapes(text, **call):
    signature = Signature.parse(text)
    return [s for s, _ in signature.shapes(signature.bind("op", call))]


def test_axes_bind_sizes_and_results_follow():
    text = "x[... K], weight[N K]:w, bias[N]? -> [... N], [...]:i"
    call = {"x": f4(2, 3, 8), "weight": f4(5, 8), "bias": None}
    assert bind(text, **call) == {"...": (2, 3), "K": 8, "N": 5}
    signature = Signature.parse(text)
    assert signature.shapes(signature.bind("op", call)) == [((2, 3, 5), np.dtype(np.float32)), ((2, 3), np.dtype(np.int32))]


def test_no_results():
    assert Signature.parse("x[N] -> ()").results == ()


def test_axes_are_names_numbers_and_sums():
    assert shapes("x[A], y[B], z[A+B], two[2] -> [A+B 2*A B//2]", x=f4(3), y=f4(5), z=f4(8), two=f4(2)) == [(8, 6, 2)]
    with pytest.raises(OpError, match=r"op: axis A\+1 of starts is 3; it must be 4, from A=3"):
        bind("x[A], starts[A+1]:i -> ()", x=f4(3), starts=np.zeros(3, int))
    with pytest.raises(OpError, match="op: axis 2 of x is 3; it must be 2"):
        bind("x[T 2] -> ()", x=f4(1, 3))


def test_an_expression_may_stand_before_its_names():
    assert bind("starts[R+1]:i, lengths[R]:i -> ()", starts=np.zeros(4, int), lengths=np.zeros(3, int)) == {"R": 3}


@pytest.mark.parametrize("lead", [(), (4,), (4, 0), (1, 2, 3)])
def test_dots_stand_for_any_axes_also_at_the_end(lead):
    assert shapes("x[... H] -> [... H]", x=f4(*lead, 8)) == [(*lead, 8)]
    assert shapes("pages[P S ...], values[T ...] -> [T ...]", pages=f4(3, 2, *lead), values=f4(5, *lead)) == [(5, *lead)]


def test_dots_must_agree():
    with pytest.raises(OpError, match=r"op: y has shape \[3, 8\]; the axes in place of ... must be \[2\]"):
        bind("x[... H], y[... H] -> ()", x=f4(2, 8), y=f4(3, 8))
    with pytest.raises(OpError, match=r"x has shape .*at least 2 axes"):
        bind("x[... A B] -> ()", x=f4(3))


@given(st.lists(st.integers(0, 3), max_size=3), st.lists(st.integers(0, 3), max_size=3))
def test_broadcasting_is_numpy_s(a, b):
    try:
        want = np.broadcast_shapes(a, b)
    except ValueError:
        with pytest.raises(OpError, match="its axes must broadcast with"):
            shapes("x[...]~, y[...]~ -> [...]", x=f4(*a), y=f4(*b))
    else:
        assert shapes("x[... A]~, y[... B]~ -> [... A+B]", x=f4(*a, 2), y=f4(*b, 5)) == [(*want, 7)]


@pytest.mark.parametrize(
    ("kind", "good", "bad", "words"),
    [
        ("f", [np.float32, np.float16, ml_dtypes.bfloat16], [np.float64, np.int32, bool], "float32, float16 or bfloat16"),
        ("i", [np.int32, np.int64, np.uint8], [np.float32, bool], "an integer type"),
        ("b", [bool], [np.int8, np.float32], "bool"),
        ("w", [np.float32, ml_dtypes.bfloat16], [np.int8], "a float type or quantised blocks"),
    ],
)
def test_kinds(kind, good, bad, words):
    for dtype in good:
        assert bind(f"x[N]:{kind} -> ()", x=np.zeros(3, dtype)) == {"N": 3}
    for dtype in bad:
        with pytest.raises(OpError, match=f"op: x is {np.dtype(dtype)}; it must be {words}"):
            bind(f"x[N]:{kind} -> ()", x=np.zeros(3, dtype))


def test_blocks_are_weights_and_nothing_else():
    blocks = Blocks(np.zeros((4, 68), np.uint8), FORMATS["Q8_0"])
    assert bind("weight[N K]:w -> ()", weight=blocks) == {"N": 4, "K": 64}
    for kind in ("f", "i", "b"):
        with pytest.raises(OpError, match="weight is Q8_0"):
            bind(f"weight[N K]:{kind} -> ()", weight=blocks)


def test_sequences_of_arrays():
    text = "experts[N K]*:w -> [N]"
    assert shapes(text, experts=[f4(3, 2), f4(3, 2)]) == [(3,)]
    with pytest.raises(OpError, match="axis K of experts"):
        shapes(text, experts=(f4(3, 2), f4(3, 4)))
    assert shapes(text, experts=f4(5, 3, 2)) == [(3,)]
    with pytest.raises(OpError, match=r"experts has shape \[2\]; it must have 2 axes"):
        shapes(text, experts=f4(2))


@pytest.mark.parametrize(("value", "shown"), [(None, "NoneType None"), (3, "int 3"), ([1, 2], r"list \[1, 2\]"), ("abc", "str 'abc'")])
def test_what_is_no_array_is_named(value, shown):
    with pytest.raises(OpError, match=rf"op: x is {shown}; it must be an array \[N\]"):
        bind("x[N] -> ()", x=value)


def test_none_may_stand_where_the_signature_says():
    assert bind("x[N], y[M]? -> ()", x=f4(2), y=None) == {"N": 2}


@pytest.mark.parametrize("text", ["x -> ()", "x[N]:q -> ()", "x[N] -> N", "[N] -> ()", "x[N]? :i -> ()"])
def test_a_signature_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match=r"not a(n argument| result) of an op's signature"):
        Signature.parse(text)


def test_names_that_no_axis_binds():
    assert Signature.parse("x[N K], y[2*K+M] -> [k N L//2]").unbound() == {"M", "k", "L"}
