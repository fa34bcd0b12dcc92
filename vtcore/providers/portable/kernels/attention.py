"""The emitter of attention: one online softmax over a request's pages, for a few rows at a time that share the loads of keys and values.

A row is a query head of a token. Each row's sums go page by page in the order of its sequence, and a page of which it sees nothing
changes nothing: so its bits don't depend on which rows share its loads. Online softmax: Milakov and Gimelshein, 2018."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

from vtcore.providers.portable import maths
from vtcore.providers.portable.lanes import SIZES, Lanes
from vtcore.providers.portable.value import I32, Val, Var

NOTHING = -1e30  # a score that no exponential feels
COLUMNS = 2  # registers of a value's columns that are summed at a time


@dataclass(frozen=True)
class Scales:
    """Where the scales of a head's codes lie: float32."""

    begin: Val
    page: Val
    slot: Val

    def at(self, page: Val, slot: Val) -> Val:
        """The address of one."""
        return self.begin + (page * self.page + slot * self.slot) * 4


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
    k_scales: Scales | None = None
    v_scales: Scales | None = None


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


class Attention:
    """The emitter of one task: state of the online softmax, and the steps of a page."""

    peaks: Var  # of scores, a lane for each row
    totals: list[Var]  # of exponentials

    def __init__(self, k: Lanes, where: Keys, rows: list[Row], before: Attention | None = None) -> None:
        """`before`: what the same rows have seen elsewhere, with which this goes on."""
        self.k, self.w, self.rows = k, where, rows
        self.parts = -(-where.page // k.lanes)  # registers of a page's scores
        self.columns = -(-where.value_width // k.lanes) * k.lanes
        self.weights = k.stack(len(rows) * self.parts * k.width)
        self.scales = k.stack(self.parts * k.width) if where.k_scales else k.lift(0)
        self.sums: Val = before.sums if before else self._room()
        self.peaks, self.totals = (before.peaks, before.totals) if before else self._start()

    def _room(self) -> Val:
        """Memory for the rows' sums."""
        return self.k.stack(len(self.rows) * self.columns * 4)

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
        """See all, and store the results."""
        self.walk()
        self.finish()

    def walk(self) -> None:
        """See every page."""
        for p in self.k.range(*self.pages()):
            self.see(p)

    def pages(self) -> tuple[Val, Val]:
        """The first page of which any row may see something, and the one behind the last."""
        first, until = self._range()
        return first // self.w.page, (until + self.w.page) // self.w.page

    def see(self, p: Val) -> None:
        """See one page."""
        k, page, (first, until) = self.k, self.w.page, self._range()
        number = self._page(p)
        scores = self._scaled(number, self._scores(number))
        shrink = self._weigh(self._masked(scores, p))
        low, high = k.max(first - p * page, 0), k.min(until + 1 - p * page, page)
        self._mix(number, shrink, low, high)

    def finish(self) -> None:
        """Store the results."""
        k = self.k
        for r, row in enumerate(self.rows):
            factor = k.splat(k.lift(1.0, self.w.scale.type) / k.max(k.hsum(self.totals[r].get()), 1e-30))
            for i, count in k.vectors(k.lift(self.w.value_width)):
                k.put(row.out + i * 4, k.load(self.sums + r * self.columns * 4 + i * 4, k.VF) * factor, "float32", count)

    def _range(self) -> tuple[Val, Val]:
        """The first and the last place that any row may see."""
        return reduce(self.k.min, (r.first for r in self.rows)), reduce(self.k.max, (r.until for r in self.rows))

    def _page(self, p: Val) -> Val:
        """The number of a request's page."""
        return self.k.integer(self.w.table + p * 4)

    def _keys(self, number: Val) -> Iterator[tuple[Val, Val]]:
        """The slots of a page, and where each one's key is."""
        for slot, page, place in self._places(number):
            yield slot, self.w.keys + (page * self.w.k_page + place * self.w.k_slot) * SIZES[self.w.k_dtype]

    def _values(self, number: Val, slots: tuple[Val, Val]) -> Iterator[tuple[Val, Val, Val | None]]:
        """Some slots of a page, where each one's value is, and by what it is to be multiplied."""
        w = self.w
        for slot, page, place in self._places(number, slots):
            scale = None if w.v_scales is None else self.k.number(w.v_scales.at(page, place))
            yield slot, w.values + (page * w.v_page + place * w.v_slot) * SIZES[w.v_dtype], scale

    def _places(self, number: Val, slots: tuple[Val, Val] | None = None) -> Iterator[tuple[Val, Val, Val]]:
        """Some slots of a page, or all: the slot, in which page, and where in it."""
        for slot in self.k.range(*(slots or (0, self.w.page))):
            yield slot, number, slot

    def _scaled(self, number: Val, scores: list[list[Val]]) -> list[list[Val]]:
        """Scores of codes times the scales of their slots."""
        k, w = self.k, self.w
        if w.k_scales is None:
            return scores
        for slot, page, place in self._places(number):
            k.put_number(self.scales + slot * 4, k.number(w.k_scales.at(page, place)))
        scales = [k.load(self.scales + j * k.width, k.VF) for j in range(self.parts)]
        return [[part * scale for part, scale in zip(parts, scales, strict=True)] for parts in scores]

    def _entries(self, p: Val) -> list[Val]:
        """The entries in the slots of a page: registers of their indices in the sequence."""
        return [self.k.splat((p * self.w.page).cast("trunc", I32)) + self.k.iota() + slot for slot, _ in self._counts()]

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
        for slot, at in self._keys(number):
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
        entries = self._entries(p)
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
        for slot, start, scale in self._values(number, slots):
            at = start + column * size
            values = [k.floats(at + j * k.lanes * size, w.v_dtype, count) for j, count in enumerate(counts)]
            for r, total in enumerate(totals):
                weight = k.number(self._weight(r, slot))
                x = k.splat(weight if scale is None else weight * scale)
                for v, t in zip(values, total, strict=True):
                    t.set(k.fma(v, x, t.get()))
        for s, total in zip(sums, totals, strict=True):
            for j, t in enumerate(total):
                k.store(s + j * k.width, t.get())
