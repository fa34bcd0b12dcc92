"""Paged attention: one online softmax over a request's pages, for a few rows at a time that share the loads of keys and values.

A row is a query head of a token. Rows that work together are neighbouring tokens of one request, and query heads of one head of
keys. Each row's sums go page by page in the order of its sequence, and a page of which it sees nothing changes nothing: so its bits
don't depend on which rows share its loads, on the batch, or on threads. Online softmax: Milakov and Gimelshein, 2018."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

from vtcore import ops
from vtcore.memory import HOST
from vtcore.providers.portable import maths
from vtcore.providers.portable.arrays import contiguous, dtype_of, float32_rows, not_float
from vtcore.providers.portable.jit import Static, kernel
from vtcore.providers.portable.lanes import SIZES, Lanes
from vtcore.providers.portable.launch import Word
from vtcore.providers.portable.provider import Portable
from vtcore.providers.portable.value import I32, Val, Var
from vtcore.tensor import Tensor, empty

NOTHING = -1e30  # a score that no exponential feels
MANY = 32  # tokens from which neighbours work together
COLUMNS = 2  # registers of a value's columns that are summed at a time
ACCUMULATORS = {16: 24, 8: 12, 4: 8}  # registers that hold scores or sums, by floats in a register


@dataclass(frozen=True)
class Keys:
    """Where a request's keys and values lie, and how a score is made of them."""

    keys: Val
    values: Val
    table: Val
    k_page: Val
    k_slot: Val
    k_column: Val
    v_page: Val
    v_slot: Val
    scale: Val
    cap: Val | None
    page: int
    width: int
    value_width: int
    k_dtype: str
    v_dtype: str
    by_slot: bool  # neighbouring keys lie side by side, else a key's columns do


@dataclass(frozen=True)
class Row:
    """One row: where its query and its output are, what it sees (entries first to until), and its extras."""

    q: Val
    out: Val
    first: Val
    until: Val
    index: Val
    sink: Val | None
    slope: Val | None


@kernel(
    "q keys values table starts lengths until sinks slopes tokens requests pages window chunk scale:f cap:f "
    "q_token q_head k_page k_slot k_head k_column v_page v_slot v_head -> y"
)
def paged(k: Lanes, q: Val, keys: Val, values: Val, table: Val, starts: Val, lengths: Val, until: Val, sinks: Val, slopes: Val,
          tokens: Val, requests: Val, pages: Val, window: Val, chunk: Val, scale: Val, cap: Val,
          q_token: Val, q_head: Val, k_page: Val, k_slot: Val, k_head: Val, k_column: Val, v_page: Val, v_slot: Val, v_head: Val,
          y: Val, *, together: int, heads: int, group: int, kv_heads: int, page: int, width: int, value_width: int,
          k_dtype: str, v_dtype: str, by_slot: bool, capped: bool, sunk: bool, sloped: bool) -> None:  # fmt: skip
    """A task: `heads` query heads of `together` tokens, or of fewer where another request begins. The last tokens first: they see most."""
    parts = group // heads

    def attend(n: int, token: Val, part: Val, request: Val) -> None:
        kv_head, head = part // parts, part * heads
        where = Keys(
            keys + kv_head * k_head * SIZES[k_dtype], values + kv_head * v_head * SIZES[v_dtype], table + request * pages * 4,
            k_page, k_slot, k_column, v_page, v_slot, scale, cap if capped else None, page, width, value_width, k_dtype, v_dtype, by_slot,
        )  # fmt: skip
        rows = list[Row]()
        for t in range(n):
            index = k.integer(lengths + request * 4) - k.integer(starts + request * 4 + 4) + token + t
            seen = (_first(k, index, window, chunk), k.integer(until + (token + t) * 4), index)
            for g in range(heads):
                source = q + ((token + t) * q_token + (head + g) * q_head) * 4
                target = y + ((token + t) * (group * kv_heads) + head + g) * (value_width * 4)
                extras = [k.number(array + (head + g) * 4) if used else None for array, used in ((sinks, sunk), (slopes, sloped))]
                rows.append(Row(source, target, *seen, *extras))
        _Attention(k, where, rows).run()

    def one(token: Val, part: Val) -> None:
        request = _request(k, starts, requests, token)
        with k.either(request < 0) as (nobody, somebody):
            with nobody:
                for i in k.range(heads * value_width):
                    k.put_number(y + ((token * (group * kv_heads) + part * heads) * value_width + i) * 4, k.lift(0.0, scale.type))
            with somebody:
                attend(1, token, part, request)

    groups = (tokens + together - 1) // together
    for task in k.claim(groups * (parts * kv_heads)):
        token, part = (groups - 1 - task // (parts * kv_heads)) * together, task % (parts * kv_heads)
        if together == 1:
            one(token, part)
            continue
        request = _request(k, starts, requests, token)
        last = _request(k, starts, requests, k.min(token + (together - 1), tokens - 1))
        whole = request.eq(last) & (request > -1) & (token + together <= tokens)
        with k.either(whole) as (as_one, alone):
            with as_one:
                attend(together, token, part, request)
            with alone:
                for t in k.range(token, k.min(token + together, tokens)):
                    one(t, part)


def _request(k: Lanes, starts: Val, requests: Val, token: Val) -> Val:
    """Whose row this is, by halving; -1 if nobody's."""
    low, high = k.var(0), k.var(requests)  # the first request that starts behind the token is in [low, high]
    with k.loop(lambda: low.get() < high.get()):
        middle = (low.get() + high.get()) // 2
        behind = k.integer(starts + middle * 4) > token
        low_now, high_now = low.get(), high.get()
        low.set(k.select(behind, low_now, middle + 1))
        high.set(k.select(behind, middle, high_now))
    found = low.get() - 1
    inside = token < k.integer(starts + low.get() * 4)
    return k.select(inside, found, k.lift(-1))


def _first(k: Lanes, index: Val, window: Val, chunk: Val) -> Val:
    """The first entry that a token sees."""
    of_window = k.select(window > 0, k.max(index - window + 1, 0), k.lift(0))
    size = k.max(chunk, 1)
    return k.select((window < 1) & (chunk > 0), index // size * size, of_window)


class _Attention:
    """The emitter of one task: state of the online softmax, and the steps of a page."""

    def __init__(self, k: Lanes, where: Keys, rows: list[Row]) -> None:
        self.k, self.w, self.rows = k, where, rows
        self.parts = -(-where.page // k.lanes)  # registers of a page's scores
        self.columns = -(-where.value_width // k.lanes) * k.lanes
        self.weights = k.stack(len(rows) * self.parts * k.width)
        self.sums = k.stack(len(rows) * self.columns * 4)
        self.peaks, self.totals = self._start()

    def _start(self) -> tuple[Var, list[Var]]:
        k, peaks, totals = self.k, self.k.const(NOTHING), list[Var]()
        for r, row in enumerate(self.rows):
            total = k.const(0.0)
            if row.sink is not None:
                peak = k.max(row.sink, NOTHING)
                peaks = k.insert(peaks, peak, r)
                total = k.insert(total, maths.exp_falling(k, row.sink - peak), 0)
            totals.append(k.var(total))
            for i in k.range(0, self.columns * 4, k.width):
                k.store(self.sums + r * self.columns * 4 + i, k.const(0.0), k.width)
        return k.var(peaks), totals

    def run(self) -> None:
        k, page = self.k, self.w.page
        first, until = reduce(k.min, (r.first for r in self.rows)), reduce(k.max, (r.until for r in self.rows))
        for p in k.range(first // page, (until + page) // page):
            number = k.integer(self.w.table + p * 4)
            scores = self._scores(number)
            shrink = self._weigh(self._masked(scores, p))
            low, high = k.max(first - p * page, 0), k.min(until + 1 - p * page, page)
            self._mix(number, shrink, low, high)
        for r, row in enumerate(self.rows):
            factor = k.splat(k.lift(1.0, self.w.scale.type) / k.max(k.hsum(self.totals[r].get()), 1e-30))
            for i, count in k.vectors(k.lift(self.w.value_width)):
                k.put(row.out + i * 4, k.load(self.sums + r * self.columns * 4 + i * 4, k.VF) * factor, "float32", count)

    def _counts(self) -> Iterator[tuple[int, Val | None]]:
        """The first slot of each register of a page, and how many there are if the register isn't full."""
        for j in range(self.parts):
            left = self.w.page - j * self.k.lanes
            yield j * self.k.lanes, None if left >= self.k.lanes else self.k.lift(left)

    def _scores(self, number: Val) -> list[list[Val]]:
        """Products of queries and keys: registers of slots, by row."""
        return self._by_slot(number) if self.w.by_slot else self._by_column(number)

    def _by_slot(self, number: Val) -> list[list[Val]]:
        k, w = self.k, self.w
        size, totals = SIZES[w.k_dtype], [[k.var(k.const(0.0)) for _ in range(self.parts)] for _ in self.rows]
        for d in k.range(w.width):
            at = w.keys + (number * w.k_page + d * w.k_column) * size
            keys = [k.floats(at + slot * size, w.k_dtype, count) for slot, count in self._counts()]
            for row, total in zip(self.rows, totals, strict=True):
                x = k.splat(k.number(row.q + d * 4))
                for key, t in zip(keys, total, strict=True):
                    t.set(k.fma(key, x, t.get()))
        return [[t.get() for t in total] for total in totals]

    def _by_column(self, number: Val) -> list[list[Val]]:
        k, w, size = self.k, self.w, SIZES[self.w.k_dtype]
        for slot in k.range(w.page):
            at = w.keys + (number * w.k_page + slot * w.k_slot) * size
            totals = [k.var(k.const(0.0)) for _ in self.rows]
            for d, count in k.vectors(k.lift(w.width)):
                key = k.floats(at + d * size, w.k_dtype, count)
                for row, total in zip(self.rows, totals, strict=True):
                    total.set(k.fma(key, k.floats(row.q + d * 4, "float32", count), total.get()))
            for r, total in enumerate(totals):
                k.put_number(self._weight(r, slot), k.hsum(total.get()))
        return [[k.load(self._weight(r, k.lift(j * k.lanes)), k.VF) for j in range(self.parts)] for r in range(len(self.rows))]

    def _weight(self, r: int, slot: Val) -> Val:
        return self.weights + r * self.parts * self.k.width + slot * 4

    def _masked(self, scores: list[list[Val]], p: Val) -> list[list[tuple[Val, Val]]]:
        """Finished scores, NOTHING where the row doesn't see the entry, with the masks."""
        k, w, out = self.k, self.w, list[list[tuple[Val, Val]]]()
        entries = [k.splat((p * w.page).cast("trunc", I32)) + k.iota() + slot for slot, _ in self._counts()]
        for row, parts in zip(self.rows, scores, strict=True):
            first, until, index = (k.splat(x.cast("trunc", I32)) for x in (row.first, row.until, row.index))
            out.append([])
            for part, entry, (_, count) in zip(parts, entries, self._counts(), strict=True):
                score = part * k.splat(w.scale)
                if w.cap is not None:
                    score = maths.tanh(k, score / k.splat(w.cap)) * k.splat(w.cap)
                if row.slope is not None:
                    score = k.fma((entry - index).cast("sitofp", score.type.element), k.splat(row.slope), score)
                seen = (entry >= first) & (entry <= until)
                seen = seen if count is None else seen & k.first(count)
                out[-1].append((k.where(seen, score, NOTHING), seen))
        return out

    def _weigh(self, scores: list[list[tuple[Val, Val]]]) -> list[Val]:
        """Store exp(score - peak) with the new peaks; by what the sums so far shrink, in every lane."""
        k, new = self.k, self.peaks.get()
        for r, parts in enumerate(scores):
            best = k.hmax(reduce(k.max, (s for s, _ in parts)))
            new = k.insert(new, k.max(best, self.peaks.get().lane(r)), r)
        shrinks = maths.exp_falling(k, self.peaks.get() - new)
        self.peaks.set(new)
        for r, parts in enumerate(scores):
            peak, total = k.shuffle(new, new, [r] * k.lanes), list[Val]()
            for j, (score, seen) in enumerate(parts):
                total.append(k.where(seen, maths.exp_falling(k, score - peak)))
                k.store(self._weight(r, k.lift(j * k.lanes)), total[-1], k.width)
            self.totals[r].set(k.fma(self.totals[r].get(), self._shrink(shrinks, r), reduce(lambda a, b: a + b, total)))
        return [self._shrink(shrinks, r) for r in range(len(self.rows))]

    def _shrink(self, shrinks: Val, r: int) -> Val:
        return self.k.shuffle(shrinks, shrinks, [r] * self.k.lanes)

    def _mix(self, number: Val, shrinks: list[Val], low: Val, high: Val) -> None:
        """Add the values of slots low to high by their weights."""
        k, step, value_width = self.k, COLUMNS * self.k.lanes, self.w.value_width
        whole = value_width - value_width % step
        for c in k.range(0, whole, step):
            self._mix_columns(number, shrinks, (low, high), c, [None] * COLUMNS)
        left = [min(k.lanes, value_width - c) for c in range(whole, value_width, k.lanes)]
        if left:
            self._mix_columns(number, shrinks, (low, high), k.lift(whole), [None if n == k.lanes else k.lift(n) for n in left])

    def _mix_columns(self, number: Val, shrinks: list[Val], slots: tuple[Val, Val], column: Val, counts: list[Val | None]) -> None:
        k, w, size = self.k, self.w, SIZES[self.w.v_dtype]
        sums = [self.sums + (r * self.columns * 4) + column * 4 for r in range(len(self.rows))]
        totals = [[k.var(k.load(s + j * k.width, k.VF) * shrinks[r]) for j in range(len(counts))] for r, s in enumerate(sums)]
        for slot in k.range(*slots):
            at = w.values + (number * w.v_page + slot * w.v_slot + column) * size
            values = [k.floats(at + j * k.lanes * size, w.v_dtype, count) for j, count in enumerate(counts)]
            for r, total in enumerate(totals):
                x = k.splat(k.number(self._weight(r, slot)))
                for v, t in zip(values, total, strict=True):
                    t.set(k.fma(v, x, t.get()))
        for s, total in zip(sums, totals, strict=True):
            for j, t in enumerate(total):
                k.store(s + j * k.width, t.get())


def register(p: Portable) -> None:
    """Attention over pages."""

    @p.kernel(ops.paged_attention, declines=declines)
    def paged_attention(
        q: Tensor, k_pages: Tensor, v_pages: Tensor, table: Tensor, starts: Tensor, lengths: Tensor, until: Tensor, scale: float,
        window: int, chunk: int, cap: float, sinks: Tensor | None, chosen: Tensor | None, slopes: Tensor | None,
    ) -> Tensor:  # fmt: skip
        q = q if dtype_of(q) == "float32" and q.strides[-1] == 1 else contiguous(p, q)
        sinks, slopes = (None if x is None else float32_rows(p, x) for x in (sinks, slopes))
        y = empty(HOST, (*q.shape[:2], v_pages.shape[-1]))
        if not y.size:
            return y
        words: list[Word] = [
            q, k_pages, v_pages, table, starts, lengths, until, sinks, slopes, q.shape[0], lengths.shape[0], table.shape[1],
            window, chunk, scale, cap or 1.0, *q.strides[:2], *k_pages.strides, *v_pages.strides[:3], y,
        ]  # fmt: skip
        work = q.size * table.shape[1] * k_pages.shape[1] // 8
        static = statics(p.isa.lanes, q, k_pages, v_pages) | {"capped": cap > 0, "sunk": sinks is not None, "sloped": slopes is not None}
        p.launch(paged, words, work, **static)
        return y


def statics(lanes: int, q: Tensor, k_pages: Tensor, v_pages: Tensor) -> dict[str, Static]:
    """What is compiled in: the shapes, and how many rows work together, which the registers for a page's scores limit."""
    (tokens, q_heads, width), (_, page, kv_heads, _) = q.shape, k_pages.shape
    group = q_heads // kv_heads
    most = max(1, min(lanes, ACCUMULATORS[lanes] // max(-(-page // lanes), COLUMNS)))
    heads = max(h for h in range(1, most + 1) if group % h == 0)
    together = min(4, most // heads) if tokens >= MANY else 1
    return {
        "together": together, "heads": heads, "group": group, "kv_heads": kv_heads, "page": page, "width": width,
        "value_width": v_pages.shape[-1], "k_dtype": dtype_of(k_pages), "v_dtype": dtype_of(v_pages), "by_slot": k_pages.strides[1] == 1,
    }  # fmt: skip


def declines(
    q: Tensor, k_pages: Tensor, v_pages: Tensor, table: Tensor, starts: Tensor, lengths: Tensor, until: Tensor,
    sinks: Any, slopes: Any, chosen: Any, **_: object,
) -> str | None:  # fmt: skip
    """Why the kernel won't run a call."""
    for name, t in {"table": table, "starts": starts, "lengths": lengths, "until": until}.items():
        if str(t.dtype) != "int32" or not t.contiguous:
            return f"{name} is {t.dtype} with strides {list(t.strides)}; the kernel reads contiguous int32"
    if chosen is not None:
        return "entries are chosen one by one; the kernel reads whole ranges"
    if any(n == 0 for t in (k_pages, v_pages) for n in t.shape):
        return f"k_pages is {list(k_pages.shape)}: there are no entries"
    if k_pages.strides[1] != 1 and k_pages.strides[3] != 1:
        return f"k_pages has strides {list(k_pages.strides)}; the kernel wants slots or columns side by side"
    if v_pages.strides[3] != 1:
        return f"v_pages has strides {list(v_pages.strides)}; the kernel wants columns side by side"
    return not_float(q=q, k_pages=k_pages, v_pages=v_pages, sinks=sinks, slopes=slopes)
