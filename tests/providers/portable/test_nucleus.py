"""What is chosen from a vocabulary: to the bit what the definitions say, on every instruction set, and hardly ever by them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.providers.portable.instances import ALL, NAMES, portable, run
from vtcore import ops
from vtcore.conformance.guards import Outputs
from vtcore.memory import HOST
from vtcore.providers.portable.kernels.nucleus import FEW, cut
from vtcore.tensor import of

WIDTHS = [1, 2, 15, 16, 17, 100, 5_001, 70_003]
P = [0.0, 1e-30, 1e-6, 0.3, 0.9, 0.9999, float(np.nextafter(np.float32(1), np.float32(0))), 1.0, 2.0]
KINDS = ["", "ties", "one", "excluded", "few", "nothing", "nan", "infinite", "huge", "tiny", "equal", "zeros"]


def row(kind, width, rng):
    """float32 [width] of a kind."""
    x = (rng.standard_normal(width) * 3).astype(np.float32)
    some = rng.random(width) < {"few": 0.999, "nan": 0.01, "infinite": 0.01}.get(kind, 0.4)
    match kind:
        case "ties":
            x = np.round(x * 2) / 2
        case "one":
            x[rng.integers(width)] = 60
        case "excluded" | "few":
            x[some] = -np.inf
        case "nothing":
            x[:] = -np.inf
        case "nan" | "infinite":
            x[some] = np.nan if kind == "nan" else np.inf
        case "huge" | "tiny":
            x = x / np.abs(x).max() * np.float32(3e38 if kind == "huge" else 1e-41)
        case "equal":
            x[:] = x[0]
        case "zeros":
            x[some], x[~some] = 0.0, -0.0
    return x


def same_bits(op, isa=NAMES[0], threads=2, **call):
    with np.errstate(all="ignore"):
        want = op.reference(**call)
    provider, outputs = portable(isa, threads), Outputs(HOST)
    with outputs.guard():  # what a kernel is given is full of NaN and -1
        got = run(provider, op, **call)
    assert outputs.intact
    for g, w in zip(got if isinstance(got, tuple) else (got,), want if isinstance(want, tuple) else (want,), strict=True):
        assert (g if isinstance(g, np.ndarray) else g.numpy()).tobytes() == w.tobytes()


@st.composite
def vocabularies(draw):
    """float32 [R, V] of rows of any kinds."""
    width, kinds = draw(st.sampled_from(WIDTHS)), draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return np.stack([row(kind, width, rng) for kind in kinds])


def ranks(width):
    return st.sampled_from([-1, 0, 1, 2, 7, FEW, FEW + 1, width // 3, width - 1, width, width + 5])


@settings(max_examples=60, deadline=None)
@given(vocabularies(), st.data(), st.sampled_from(ALL))
def test_top_k_and_top_p_keep_what_the_definition_keeps(x, data, isa):
    k = data.draw(st.lists(ranks(x.shape[1]), min_size=len(x), max_size=len(x)))
    p = data.draw(st.lists(st.sampled_from(P), min_size=len(x), max_size=len(x)))
    same_bits(ops.apply_top_k_top_p, isa, logits=x, k=np.array(k, np.int32), p=np.array(p, np.float32))


@settings(max_examples=40, deadline=None)
@given(vocabularies(), st.data(), st.sampled_from(ALL))
def test_the_k_largest_in_their_order(x, data, isa):
    k = data.draw(ranks(x.shape[1]).filter(lambda k: 0 < k <= x.shape[1]))
    same_bits(ops.top_k, isa, x=x, k=k)


@settings(max_examples=40, deadline=None)
@given(vocabularies(), st.integers(-(2**63), 2**63 - 5), st.integers(0, 2**31 - 1), st.sampled_from(ALL))
def test_who_wins_a_draw(x, seed, step, isa):
    with np.errstate(all="ignore"):
        probs = ops.softmax.reference(x)
    same_bits(ops.random_sample, isa, probs=probs, seeds=np.arange(len(x)) + seed, steps=np.full(len(x), step, np.int32))


@settings(max_examples=40, deadline=None)
@given(vocabularies(), st.data(), st.sampled_from(ALL))
def test_temperatures_and_min_p(x, data, isa):
    numbers = st.sampled_from([0.0, 1e-6, 9.9999997e-06, 1.0000001e-05, 0.01, 0.3, 0.7, 1.0])
    some = np.array(data.draw(st.lists(numbers, min_size=len(x), max_size=len(x))), np.float32)
    same_bits(ops.apply_temperature, isa, logits=x, temperature=some)
    same_bits(ops.apply_min_p, isa, logits=x, min_p=some)


@pytest.mark.parametrize("isa", NAMES)
def test_ordinary_rows_are_not_left_to_the_definition(isa):
    rng = np.random.default_rng(2)
    x = (rng.standard_normal((24, 49_152)) * rng.uniform(1, 5, (24, 1))).astype(np.float32)
    x[20:, 50:] = -np.inf
    k, p = np.resize(np.array([0, 50, 4_000, 0], np.int32), 24), np.resize(np.float32([0.9, 0.95, 0.5, 0.999, 0.1, 1e-6]), 24)
    out, doubts = cut(portable(isa), of(x), of(k), of(p))
    assert not doubts.numpy().any()
    assert out.numpy().tobytes() == ops.apply_top_k_top_p.reference(x, k, p).tobytes()


def test_a_sum_that_rounding_may_put_on_either_side_is_left_to_the_definition():
    x = np.zeros((2, 4096), np.float32)
    p = np.float32([0.5, 0.5 + 1 / 8192])
    _, doubts = cut(portable(), of(x), of(np.zeros(2, np.int32)), of(p))
    assert doubts.numpy().tolist() == [1, 0]


@pytest.mark.parametrize("isa", NAMES)
def test_a_row_of_the_definition_s_leaves_the_one_before_it_alone(isa):
    x = np.full((2, 40), -np.inf, np.float32)
    x[0, 3] = 7
    x[1, 29] = np.inf
    same_bits(ops.apply_top_k_top_p, isa, threads=1, logits=x, k=np.array([0, 5], np.int32), p=np.float32([0.8, 0.9]))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("op", ["apply_top_k_top_p", "top_k"])
def test_a_row_of_a_vocabulary_is_the_same_alone(op, threads):
    rng = np.random.default_rng(8)
    x = np.stack([row(kind, 30_001, rng) for kind in KINDS])
    k, p = np.full(len(x), 40, np.int32), np.full(len(x), 0.8, np.float32)
    for part in (slice(None), slice(3, 4), slice(0, 5)):
        call = {"x": x[part], "k": 40} if op == "top_k" else {"logits": x[part], "k": k[part], "p": p[part]}
        same_bits(getattr(ops, op), threads=threads, **call)
