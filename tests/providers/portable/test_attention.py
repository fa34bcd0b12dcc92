"""Paged attention: the same bits whoever shares a batch, however the pages lie, and however many threads there are."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vtcore import ops
from vtcore.assembly import find_providers
from vtcore.dispatch import Dispatcher
from vtcore.errors import ArgumentError
from vtcore.kernel_files import KernelFiles
from vtcore.options import Options
from vtcore.providers.portable.isa import available, host
from vtcore.providers.portable.kernels import paged
from vtcore.providers.portable.kernels.cascade import Cascade
from vtcore.providers.portable.object_cache import ObjectCache
from vtcore.providers.portable.provider import Portable
from vtcore.tensor import Tensor, of

PAGE, HEADS, KV_HEADS, WIDTH = 32, 6, 2, 40


@cache
def portable(isa: str, threads: int = 1, *, cascade: bool = True) -> Portable:
    p = Portable(isa, threads, cascade=cascade)
    paged.register(p)
    return p


def cache_of(pages: np.ndarray, order: tuple[int, ...]) -> Tensor:
    """Pages of the same values whose axes lie in another order."""
    back = [order.index(a) for a in range(4)]
    return of(np.ascontiguousarray(pages.transpose(order))).transpose(*back)


class Batch:
    """Requests of (length, new tokens), each with pages of its own, cut out of one pool of keys and values."""

    def __init__(self, requests: list[tuple[int, int]], seed: int = 0) -> None:
        self.requests, rng = requests, np.random.default_rng(seed)
        self.needed = [-(-length // PAGE) for length, _ in requests]
        self.pages = [np.arange(sum(self.needed[:r]) + 1, sum(self.needed[: r + 1]) + 1) for r in range(len(requests))]
        shape = (sum(self.needed) + 1, PAGE, KV_HEADS, WIDTH)
        self.keys, self.values = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
        self.queries = [rng.standard_normal((new, HEADS, WIDTH)).astype(np.float32) for _, new in requests]

    def run(self, p: Portable, which: list[int], *, by_slot: bool = True, cut: int | None = None, **options: object) -> list[np.ndarray]:
        """The results of some requests, together; with a cut, only of the tokens from there on."""
        orders = ((0, 2, 3, 1), (0, 2, 1, 3)) if by_slot else ((0, 1, 2, 3), (0, 1, 2, 3))
        new = [self.queries[r][cut or 0 :] for r in which]
        starts = np.cumsum([0, *map(len, new)]).astype(np.int32)
        lengths = np.array([self.requests[r][0] for r in which], np.int32)
        until = np.concatenate([np.arange(self.requests[r][0] - len(q), self.requests[r][0]) for r, q in zip(which, new, strict=True)])
        table = np.zeros((len(which), max(self.needed)), np.int32)
        for i, r in enumerate(which):
            table[i, : self.needed[r]] = self.pages[r]
        with Dispatcher([p], strict=True):
            out = ops.paged_attention(
                of(np.concatenate(new)), cache_of(self.keys, orders[0]), cache_of(self.values, orders[1]), of(table), of(starts),
                of(lengths), of(until.astype(np.int32)), WIDTH**-0.5, **options,
            ).numpy()  # fmt: skip
        return np.split(out, starts[1:-1])


OPTIONS: list[dict[str, object]] = [{}, {"window": 19}, {"chunk": 16}, {"cap": 30.0}]


@pytest.mark.parametrize("isa", available(host()))
@pytest.mark.parametrize("options", OPTIONS)
def test_a_row_does_not_depend_on_its_neighbours(isa, options):
    batch, p = Batch([(100, 70), (1, 1), (37, 33), (64, 5)]), portable(isa)
    together = batch.run(p, [0, 1, 2, 3], **options)
    for r in range(4):
        np.testing.assert_array_equal(batch.run(p, [r], **options)[0], together[r])
        np.testing.assert_array_equal(batch.run(portable(isa, 2), [r], **options)[0], together[r])
    np.testing.assert_array_equal(batch.run(p, [2, 0], **options)[1], together[0])


@pytest.mark.feature("Cascade attention")
@pytest.mark.parametrize("isa", available(host()))
@pytest.mark.parametrize("options", [*OPTIONS, {"sinks": of(np.linspace(-3, 3, HEADS, dtype=np.float32))}])
def test_rows_that_see_shared_pages_together_keep_their_bits(isa, options):
    batch = Batch([(140, 1), (171, 1), (150, 2), (7, 1), (139, 1), (140, 1), (200, 3), (70, 1)])
    for r in (1, 2, 4, 5, 6):
        batch.pages[r][:4] = batch.pages[0][:4]
    p, apart = portable(isa), portable(isa, cascade=False)
    alone = [batch.run(apart, [r], **options)[0] for r in range(8)]
    for which in ([0, 1, 2, 3, 4, 5, 6, 7], [6, 5, 4, 2, 1, 0], [0, 1, 2, 4, 5, 6] * 6):
        for other in (p, portable(isa, 2), apart):
            for got, r in zip(batch.run(other, which, **options), which, strict=True):
                np.testing.assert_array_equal(got, alone[r])


@pytest.mark.feature("Cascade attention")
@pytest.mark.parametrize("kind", ["float8_e4m3fn", "bfloat16"])
def test_shared_pages_of_any_dtype(kind):
    batch = Batch([(140, 1), (171, 1), (150, 1), (199, 1)])
    for r in (1, 2, 3):
        batch.pages[r][:4] = batch.pages[0][:4]
    batch.keys, batch.values = batch.keys.astype(kind), batch.values.astype(kind)
    isa = available(host())[0]
    together = batch.run(portable(isa), [0, 1, 2, 3])
    for r in range(4):
        np.testing.assert_array_equal(batch.run(portable(isa, cascade=False), [r])[0], together[r])


@pytest.mark.feature("Cascade attention")
@pytest.mark.parametrize("isa", available(host()))
def test_shared_pages_are_seen_together_where_the_rule_says_so(isa, monkeypatch, tmp_path):
    """Without the shared part of a cascade, results are wrong exactly where there is one."""
    see = Cascade._together
    monkeypatch.setattr(Cascade, "_together", lambda self, token, count, shared: see(self, token, count, self.k.lift(0)))
    monkeypatch.setattr(f"{__name__}.PAGE", 16)  # of which every instruction set holds several rows
    forgets = Portable(isa, 1, ObjectCache(KernelFiles(tmp_path)))  # wrong kernels are kept for nobody else
    paged.register(forgets)

    def wrong(shared: int, which: list[int], **options: object) -> bool:
        batch = Batch([(140, 1), (171, 1), (150, 1), (199, 1), (160, 1), (170, 1)])
        for r in (1, 2, 3):
            batch.pages[r][:shared] = batch.pages[0][:shared]
        right, got = batch.run(portable(isa, cascade=False), which, **options), batch.run(forgets, which, **options)
        return not all(np.array_equal(a, b) for a, b in zip(got, right, strict=True))

    assert wrong(4, [0, 1, 2, 3])
    assert not wrong(3, [0, 1, 2, 3])  # fewer pages than pay
    assert not wrong(4, [0, 4, 1, 5])  # no neighbours
    assert not wrong(4, [0, 1, 2, 3], window=60)
    assert not wrong(4, [0])


def test_cascade_attention_can_be_turned_off():
    assert portable(available(host())[0]).facts["cascade attention"] == "where neighbouring requests begin alike"
    assert portable(available(host())[0], cascade=False).facts["cascade attention"] == "off"
    with pytest.raises(ArgumentError, match="disable_cascade_attn has no effect: no provider of reference has cascade attention"):
        find_providers(Options(providers="reference", disable_cascade_attn=True))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 90), st.integers(1, 90)), min_size=1, max_size=5), st.integers(0, 40), st.integers(0, 3))
def test_chunks_give_the_same_bits(requests, cut, which):
    requests = [(length, min(new, length)) for length, new in requests]
    batch, p = Batch(requests), portable(available(host())[0])
    whole = batch.run(p, list(range(len(requests))), **OPTIONS[which])
    cut = min(cut, min(new for _, new in requests) - 1)
    for got, want in zip(batch.run(p, list(range(len(requests))), cut=cut, **OPTIONS[which]), whole, strict=True):
        np.testing.assert_array_equal(got, want[cut:])


@pytest.mark.parametrize("isa", available(host()))
def test_pages_in_either_order_hold_the_same(isa):
    """Other layouts sum in another order: near, not equal."""
    batch = Batch([(100, 70), (37, 33)])
    for got, want in zip(batch.run(portable(isa), [0, 1], by_slot=False), batch.run(portable(isa), [0, 1]), strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-6)


def test_what_lies_behind_a_sequence_in_its_page_is_never_read():
    batch, p = Batch([(40, 40)]), portable(available(host())[0])
    clean = batch.run(p, [0])[0]
    batch.keys[2, 8:], batch.values[2, 8:] = np.nan, np.inf
    np.testing.assert_array_equal(batch.run(p, [0])[0], clean)
