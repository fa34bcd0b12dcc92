import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ops.witness import ints, normal
from vtcore.op import REGISTRY
from vtcore.ops import attention, paged_attention, write_pages
from vtcore.ops.inputs import paged


def softmax_mix(scores, values, sink=None):
    """One query's weights of Python floats over rows of values."""
    if not scores:
        return [0.0] * values.shape[-1]
    top = max([*scores, *([] if sink is None else [sink])])
    weights = [math.exp(s - top) for s in scores]
    total = math.fsum(weights) + (0 if sink is None else math.exp(sink - top))
    return [math.fsum(w / total * float(v) for w, v in zip(weights, column, strict=True)) for column in values.T]


def by_hand(call, sees):
    """paged_attention one number at a time; sees(index, until, row) are the entries of a row's token."""
    q, k, v = call["q"], call["k_pages"], call["v_pages"]
    page, share = k.shape[1], q.shape[1] // k.shape[2]
    out = np.zeros((*q.shape[:2], v.shape[-1]))
    for r, length in enumerate(call["lengths"]):
        for t in range(call["starts"][r], call["starts"][r + 1]):
            index = length - (call["starts"][r + 1] - t)
            entries = [int(e) for e in sees(index, int(call["until"][t]), t)]
            for h in range(q.shape[1]):
                places = [(call["table"][r][e // page], e % page, h // share) for e in entries]
                scores = [call["scale"] * math.fsum(float(a) * float(b) for a, b in zip(q[t, h], k[p], strict=True)) for p in places]
                if cap := call.get("cap"):
                    scores = [cap * math.tanh(s / cap) for s in scores]
                if (slopes := call.get("slopes")) is not None:
                    scores = [s - float(slopes[h]) * (index - e) for s, e in zip(scores, entries, strict=True)]
                values = np.array([v[p] for p in places], np.float64).reshape(len(places), -1) if places else np.zeros((0, v.shape[-1]))
                out[t, h] = softmax_mix(scores, values, None if call.get("sinks") is None else float(call["sinks"][h]))
    return out


def causal(index, until, t):
    return range(until + 1)


@pytest.fixture
def batch():
    return paged(np.random.default_rng(0), tokens=(5, 0, 1), lengths=(9, 0, 14), heads=(6, 2), width=(16, 12), page=4, idle=2)


CHOSEN = np.array([[0, 3, 1], [-1, -1, -1], [2, -1, 5], [6, 0, -1], [1, 2, 3], [13, 0, 7], [0, 0, 0], [0, 0, 0]], np.int32)
WAYS = {
    "causal": ({}, causal),
    "window 1": ({"window": 1}, lambda i, u, t: range(i, u + 1)),
    "window 3": ({"window": 3}, lambda i, u, t: range(max(0, i - 2), u + 1)),
    "window 99": ({"window": 99}, causal),
    "chunk 4": ({"chunk": 4}, lambda i, u, t: range(i - i % 4, u + 1)),
    "chosen": ({"chosen": CHOSEN}, lambda i, u, t: sorted(e for e in CHOSEN[t] if e >= 0)),
    "cap": ({"cap": 1.5}, causal),
    "sinks": ({"sinks": normal(5, 6)}, causal),
    "slopes": ({"slopes": np.float32([0.5, 0.25, 0.125, 1, 2, 4])}, causal),
    "all": ({"cap": 2.0, "sinks": normal(6, 6), "slopes": normal(7, 6), "window": 3}, lambda i, u, t: range(max(0, i - 2), u + 1)),
}


@pytest.mark.parametrize("way", WAYS)
def test_paged_attention_by_hand(batch, way):
    options, sees = WAYS[way]
    got = paged_attention(**batch | options)
    np.testing.assert_allclose(got, by_hand(batch | options, sees), rtol=1e-6, atol=1e-7)
    assert not got[-2:].any()


@pytest.mark.parametrize("slopes", [None, np.float32([0.5, 0.25, 0.125, 1, 2, 4])])
def test_tokens_of_a_group_see_each_other(batch, slopes):
    call = batch | {"until": ints(7, 7, 7, 7, 8, 13, 0, 0), "slopes": slopes}
    np.testing.assert_allclose(paged_attention(**call), by_hand(call, causal), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("options", [{"until": np.full(8, -1, np.int32)}, {"chosen": np.full((8, 2), -1, np.int32)}])
@pytest.mark.parametrize("sinks", [None, np.ones(6, np.float32)])
def test_a_query_that_sees_nothing_gives_zeros(batch, options, sinks):
    assert not paged_attention(**batch | options, sinks=sinks).any()


def test_no_requests_and_no_tokens():
    call = paged(np.random.default_rng(0), tokens=(), lengths=(), heads=(2, 2), width=(8, 4), page=2)
    assert paged_attention(**call).shape == (0, 2, 4)


@pytest.mark.parametrize(("score", "want"), [(10, 9.8687661), (50, 38.0797078), (200, 49.9664670)])
def test_the_cap_comes_after_the_scale_and_before_the_softmax(score, want):
    """Two entries, one of score 0: their weights tell the capped score."""
    call = paged(np.random.default_rng(0), tokens=(1,), lengths=(2,), heads=(1, 1), width=(1, 1), page=2)
    call["k_pages"][call["table"][0, 0], :, 0, 0] = score / 20, 0
    call["v_pages"][call["table"][0, 0], :, 0, 0] = 1, 0
    call |= {"q": np.full((1, 1, 1), 2, np.float32), "scale": 10.0, "cap": 50.0, "slopes": np.float32([want - 3])}
    got = float(paged_attention(**call)[0, 0, 0])  # the first entry is one farther: its score is 3
    assert math.log(got / (1 - got)) == pytest.approx(3, rel=1e-5)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_sixteen_bit_pages_are_widened_first(batch, dtype):
    pages = {n: batch[n].astype(dtype) for n in ("k_pages", "v_pages")}
    wide = {n: p.astype(np.float32) for n, p in pages.items()}
    np.testing.assert_array_equal(paged_attention(**batch | pages), paged_attention(**batch | wide))


def test_pages_may_be_strided_and_values_a_view_of_keys(batch):
    turned = {n: np.ascontiguousarray(batch[n].swapaxes(1, 2)).swapaxes(1, 2) for n in ("k_pages", "v_pages")}
    np.testing.assert_array_equal(paged_attention(**batch | turned), paged_attention(**batch))
    view = batch["k_pages"][..., 3:9]
    got = paged_attention(**batch | {"v_pages": view})
    np.testing.assert_array_equal(got, paged_attention(**batch | {"v_pages": view.copy()}))


def test_pages_that_are_not_touched_may_hold_anything(batch):
    op = REGISTRY["paged_attention"]
    want = paged_attention(**batch)
    for name in ("k_pages", "v_pages"):
        others = np.ones(len(batch[name]), bool)
        others[op.touches[name](**op.bind(**batch))] = False
        assert others.any()
        batch[name][others] = np.nan
    np.testing.assert_array_equal(paged_attention(**batch), want)


def rows_of(call, r, begin, end):
    """One request's rows begin to end, as a batch of their own."""
    first = call["starts"][r]
    cut = slice(first + begin, first + end)
    left = call["starts"][r + 1] - first - end
    one = {"table": call["table"][r : r + 1], "starts": ints(0, end - begin), "lengths": call["lengths"][r : r + 1] - left}
    return call | one | {"q": call["q"][cut], "until": call["until"][cut]}


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 20)), min_size=1, max_size=4),
    st.sampled_from([{}, {"window": 3}, {"chunk": 4}]),
    st.integers(0, 2**32 - 1),
)
def test_bits_are_equal_alone_in_a_batch_in_chunks_and_padded(requests, options, seed):
    tokens, lengths = [n for n, _ in requests], [n + more for n, more in requests]
    call = paged(np.random.default_rng(seed), tokens, lengths, heads=(4, 2), width=(8, 8), page=4) | options
    whole = paged_attention(**call)
    for r, n in enumerate(tokens):
        own = whole[call["starts"][r] : call["starts"][r + 1]]
        np.testing.assert_array_equal(paged_attention(**rows_of(call, r, 0, n)), own)
        np.testing.assert_array_equal(np.concatenate([paged_attention(**rows_of(call, r, i, i + 1)) for i in range(n)] or [own]), own)
    wider = {n: np.pad(call[n], ((0, 2), *[(0, 0)] * (call[n].ndim - 1))) for n in ("q", "until")}
    padded = call | wider | {"table": np.pad(call["table"], ((0, 0), (0, 3)))}
    np.testing.assert_array_equal(paged_attention(**padded)[:-2], whole)


@pytest.mark.parametrize("width", [80, 96, 112, 40, 1])
def test_attention_by_hand(width):
    q, k, v = normal(0, 5, 1, width), normal(1, 5, 1, width), normal(2, 5, 1, 7)
    scale = width**-0.5
    want = [softmax_mix([scale * math.fsum(np.float64(a[0]) * b[0]) for b in k], v[:, 0].astype(np.float64)) for a in q]
    got = attention(q, k, v, ints(0, 5), scale)
    np.testing.assert_allclose(got[:, 0], want, rtol=0, atol=1e-6)
    strided = (np.ascontiguousarray(x.T).T for x in (q, k, v))
    np.testing.assert_array_equal(attention(*strided, ints(0, 5), scale), got)


def test_runs_do_not_see_each_other():
    q, k, v = normal(0, 7, 2, 8), normal(1, 7, 2, 8), normal(2, 7, 2, 8)
    got = attention(q, k, v, ints(1, 3, 3, 6), 0.5)
    for begin, end in ((1, 3), (3, 6)):
        np.testing.assert_array_equal(got[begin:end], attention(q[begin:end], k[begin:end], v[begin:end], ints(0, end - begin), 0.5))
    assert not got[[0, 6]].any()


def bits(dtype, values):
    pages = np.zeros((1, len(values)), dtype)
    write_pages(pages, np.array(values, np.float32), np.arange(len(values), dtype=np.int32))
    return [f"{b:04X}" for b in pages[0].view(np.uint16)]


def test_a_write_rounds_to_bfloat16_to_nearest_even():
    signalling, huge = np.array([0x7F800001, 0xFF800001, 0x7F7FFFFF], np.uint32).view(np.float32)[[0, 1]], np.float32(3.4028235e38)
    assert bits(ml_dtypes.bfloat16, [3.14, 1e-8, 1.00390625, 1.01171875, huge, -0.0]) == ["4049", "322C", "3F80", "3F82", "7F80", "8000"]
    pages = np.zeros((1, 2), ml_dtypes.bfloat16)
    write_pages(pages, signalling, ints(0, 1))
    assert np.isnan(pages).all()


def test_a_write_keeps_float16_subnormals():
    assert bits(np.float16, [2.0**-15, 2.0**-24, 2.0**-25, 1.5 * 2.0**-25, -0.0]) == ["0200", "0001", "0000", "0001", "8000"]
    assert bits(np.float16, [1e6, -1e6]) == ["7C00", "FC00"]


def test_a_write_goes_where_the_slot_says():
    pages, values = np.zeros((3, 4, 2), np.float32), normal(0, 4, 2)
    assert write_pages(pages, values, ints(5, -1, 11, 5)) is None
    want = np.zeros((12, 2), np.float32)
    want[11], want[5] = values[2], values[3]
    np.testing.assert_array_equal(pages.reshape(12, 2), want)


def test_a_write_reaches_strided_pages():
    cache = np.zeros((3, 2, 2, 4, 8), np.float32)  # page, keys or values, head, place, width
    values = normal(0, 2, 2, 8)
    write_pages(cache[:, 1].swapaxes(1, 2), values, ints(0, 9))
    np.testing.assert_array_equal(cache[0, 1, :, 0], values[0])
    np.testing.assert_array_equal(cache[2, 1, :, 1], values[1])
    assert np.count_nonzero(cache) == values.size


def test_a_write_touches_the_pages_of_its_slots_only():
    touches = REGISTRY["write_pages"].touches["pages"]
    assert touches(pages=np.zeros((5, 4)), values=None, slots=ints(9, -1, 8, 19)).tolist() == [2, 4]
    assert touches(pages=np.zeros((5, 4)), values=None, slots=object()) is None
