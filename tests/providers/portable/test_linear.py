"""Matrix products: one row's bits whatever stands beside it, every format, odd shapes, and no byte outside the arrays."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.providers.portable.instances import ALL, NAMES, blocks, portable, run
from vtcore import ops
from vtcore.quant.blocks import FORMATS, Blocks
from vtcore.tensor import of

DENSE = ("float32", "float16", "bfloat16")
QUANTISED = ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K", "Q2_K", "Q3_K", "IQ4_NL", "IQ4_XS")


def weight_of(kind, rows, columns, seed=0):
    if kind in FORMATS:
        return blocks(kind, rows, columns, seed)
    return np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32).astype(kind)


def products(kind):
    return (ops.linear,) if kind in DENSE else (ops.linear, ops.linear_q8)


@pytest.mark.parametrize(
    ("isa", "kind"), [*product(ALL, ["Q8_0"]), *product(NAMES, ["float32"]), *product(NAMES[:1], ["float16", "bfloat16", "Q4_1", "Q6_K"])]
)
def test_a_row_has_the_same_bits_in_any_batch_on_any_number_of_threads(isa, kind):
    rows, columns = 71, 256
    x, weight = np.random.default_rng(1).standard_normal((40, columns)).astype(np.float32), weight_of(kind, rows, columns)
    for op in products(kind):
        alone = np.concatenate([run(portable(isa, 1), op, x=row[None], weight=weight, bias=None) for row in x])
        for m in range(1, 41):
            assert run(portable(isa, 1 + m % 3), op, x=x[:m], weight=weight, bias=None).tobytes() == alone[:m].tobytes(), (op.name, m)
        order = np.random.default_rng(2).permutation(40)
        assert run(portable(isa, 3), op, x=x[order], weight=weight, bias=None).tobytes() == alone[order].tobytes()


@pytest.mark.feature("Compute directly on quantized blocks")
@pytest.mark.parametrize("kind", sorted(n for n, f in FORMATS.items() if f.codes))
def test_every_block_format_is_exact_in_its_integers(kind):
    """Bit by bit what the definition gives, whose order of operations is part of it."""
    weight, x = blocks(kind, 5, 512), np.random.default_rng(3).standard_normal((3, 512)).astype(np.float32)
    want = ops.linear_q8(x, weight)
    for isa in NAMES:
        np.testing.assert_array_equal(run(portable(isa), ops.linear_q8, x=x, weight=weight), want)


@pytest.mark.parametrize(("isa", "kind"), list(product(ALL, ["Q4_0", "Q5_0", "Q4_K", "Q6_K"])))
def test_many_rows_share_codes_that_were_written_out(isa, kind):
    weight, x = blocks(kind, 35, 256), np.random.default_rng(8).standard_normal((31, 256)).astype(np.float32)
    got = run(portable(isa, 3), ops.linear_q8, x=x, weight=weight)
    np.testing.assert_array_equal(got, ops.linear_q8(x, weight))
    assert got[5].tobytes() == run(portable(isa, 1), ops.linear_q8, x=x[5:6], weight=weight).tobytes()


@pytest.mark.feature("Compute directly on quantized blocks")
@pytest.mark.parametrize("kind", sorted(FORMATS))
def test_every_block_format_is_near_the_definition(kind):
    weight, x = blocks(kind, 37, 512), np.random.default_rng(4).standard_normal((2, 512)).astype(np.float32)
    want = ops.linear(x, weight)
    bound = 1e-5 * np.abs(want).max(-1, keepdims=True)
    for isa in NAMES:
        assert (np.abs(run(portable(isa), ops.linear, x=x, weight=weight) - want) <= bound).all()


@settings(max_examples=20)
@given(m=st.integers(0, 9), n=st.integers(1, 70), k=st.integers(1, 100), kind=st.sampled_from(DENSE), biased=st.booleans())
def test_dense_weights_of_any_shape(m, n, k, kind, biased):
    rng = np.random.default_rng(m * 7919 + n * 101 + k)
    x, bias = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal(n).astype(np.float32) if biased else None
    weight = rng.standard_normal((n, k)).astype(np.float32).astype(kind)
    got, want = run(portable(), ops.linear, x=x, weight=weight, bias=bias), ops.linear(x, weight, bias)
    assert got.shape == want.shape
    assert np.allclose(got, want, rtol=0, atol=1e-5 * (1 + np.abs(want).max(initial=0)))


@settings(max_examples=20)
@given(m=st.integers(1, 9), n=st.integers(1, 70), runs=st.integers(1, 3), kind=st.sampled_from(QUANTISED), biased=st.booleans())
def test_quantised_weights_of_any_shape(m, n, runs, kind, biased):
    rng, k = np.random.default_rng(m * 7919 + n), runs * FORMATS[kind].block
    x, bias = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal(n).astype(np.float32) if biased else None
    weight = blocks(kind, n, k)
    np.testing.assert_array_equal(run(portable(), ops.linear_q8, x=x, weight=weight, bias=bias), ops.linear_q8(x, weight, bias))


@pytest.mark.parametrize("isa", NAMES)
def test_activations_that_are_no_numbers_spoil_their_own_row_alone(isa):
    x = np.random.default_rng(5).standard_normal((4, 64)).astype(np.float32)
    clean = run(portable(isa), ops.linear_q8, x=x, weight=blocks("Q8_0", 40, 64))
    x[1, 3], x[2, 40] = np.nan, np.inf
    got = run(portable(isa), ops.linear_q8, x=x, weight=blocks("Q8_0", 40, 64))
    assert np.isnan(got[1:3]).all()
    assert got[[0, 3]].tobytes() == clean[[0, 3]].tobytes()


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "Q4_K", "IQ4_XS"])
def test_a_prepared_weight_s_own_bytes_are_not_read_again(kind):
    array = weight_of(kind, 40, 256)
    weight, x = of(array), np.random.default_rng(6).standard_normal((2, 256)).astype(np.float32)
    portable().prepare(ops.linear, weight)
    before = run(portable(), ops.linear, x=x, weight=weight)
    stored = array.data if isinstance(array, Blocks) else array
    stored[...] = 0
    assert run(portable(), ops.linear, x=x, weight=weight).tobytes() == before.tobytes()
    assert before.any()
    assert len(weight.storage.forms) == 1


def test_views_of_one_storage_have_panels_of_their_own():
    whole = of(weight_of("float32", 40, 64))
    x = np.random.default_rng(7).standard_normal((1, 64)).astype(np.float32)
    top, rest = (run(portable(), ops.linear, x=x, weight=whole[part]) for part in (slice(0, 16), slice(16, 40)))
    assert np.concatenate([top, rest], 1).tobytes() == run(portable(), ops.linear, x=x, weight=whole).tobytes()


def test_a_weight_without_integer_form_is_declined_in_words():
    call = {"x": of(np.ones((1, 32), np.float32)), "weight": of(np.ones((2, 32), np.float32)), "bias": None}
    decline = portable().accept(ops.linear_q8, call)
    assert "weight is float32" in decline.reason
