"""Compressed entries: how windows of tokens are folded into them, and attention over them beside a window of plain ones."""

from __future__ import annotations

from vtcore import ops
from vtcore.memory import HOST
from vtcore.providers.portable import maths
from vtcore.providers.portable.arrays import contiguous, contiguous_integers, dtype_of, float32_rows, not_float
from vtcore.providers.portable.jit import kernel
from vtcore.providers.portable.kernels.attention import Attention, Keys, Row
from vtcore.providers.portable.kernels.chosen import ALL, Chosen
from vtcore.providers.portable.kernels.paged import request_of, statics
from vtcore.providers.portable.kernels.plain.kernel import not_int32
from vtcore.providers.portable.lanes import SIZES, Lanes
from vtcore.providers.portable.launch import Word
from vtcore.providers.portable.provider import Portable
from vtcore.providers.portable.value import Val
from vtcore.tensor import Tensor, empty

COST_OF_A_CHANNEL = 20  # work of an element of a window


@kernel("kv gate ape weight table slots starts lengths tokens requests pages eps:f kv_page kv_slot gate_page gate_slot -> y")
def folded(k: Lanes, kv: Val, gate: Val, ape: Val, weight: Val, table: Val, slots: Val, starts: Val, lengths: Val, tokens: Val,
           requests: Val, pages: Val, eps: Val, kv_page: Val, kv_slot: Val, gate_page: Val, gate_slot: Val, y: Val,
           *, every: int, width: int, series: int, page: int, kv_dtype: str, gate_dtype: str) -> None:  # fmt: skip
    """compress. Of two series the first, for which the window begins earlier, lies before the second."""
    half = (series - 1) * width
    for t in k.claim(tokens):
        out, request, own = y + t * (width * 4), request_of(k, starts, requests, t), k.var(0)
        own.set(k.select(request > -1, k.integer(slots + t * 4), k.lift(-1)))
        with k.either(own.get() < 0) as (nothing, entry):
            with nothing:
                for i, count in k.vectors(k.lift(width)):
                    k.put(out + i * 4, k.const(0.0), "float32", count)
            with entry:
                end = k.integer(lengths + request * 4) - k.integer(starts + request * 4 + 4) + t + 1

                def row(i: Val, page_step: Val, slot_step: Val, base: Val, dtype: str, request: Val = request) -> Val:
                    number = k.integer(table + (request * pages + i // page) * 4)
                    return base + (number * page_step + i % page * slot_step) * SIZES[dtype]

                squares = k.var(k.const(0.0))
                squares.set(0.0)
                for c, count in k.vectors(k.lift(width)):
                    top, total, mixed = (k.var(k.const(0.0)) for _ in range(3))
                    top.set(-1e30)
                    total.set(0.0)
                    mixed.set(0.0)
                    for second in (False, True):
                        for s in range(series):  # tokens of the window before, then of this one
                            shift, column = (series - 1 - s) * every, c + (half if s == series - 1 else 0)
                            for e in k.range(every):
                                i = end - every - shift + e
                                with k.when(i > -1):
                                    at = row(i, gate_page, gate_slot, gate, gate_dtype) + column * SIZES[gate_dtype]
                                    score = k.floats(at, gate_dtype, count)
                                    score = score + k.floats(ape + (e * (series * width) + column) * 4, "float32", count)
                                    if not second:
                                        top.set(k.max(score, top.get()))
                                        continue
                                    at = row(i, kv_page, kv_slot, kv, kv_dtype) + column * SIZES[kv_dtype]
                                    share = maths.exp_falling(k, score - top.get())
                                    total.set(total.get() + share)
                                    mixed.set(k.fma(share, k.floats(at, kv_dtype, count), mixed.get()))
                    v = mixed.get() / total.get()
                    v = v if count is None else k.where(k.first(count), v)
                    squares.set(k.fma(v, v, squares.get()))
                    k.put(out + c * 4, v, "float32", count)
                mean = k.hsum(squares.get()) * (1 / width) + eps
                factor = k.splat(k.lift(1.0, mean.type) / k.sqrt(mean))
                for c, count in k.vectors(k.lift(width)):
                    v = k.floats(out + c * 4, "float32", count) * factor * k.floats(weight + c * 4, "float32", count)
                    k.put(out + c * 4, v, "float32", count)


@kernel(
    "q near far table far_table starts lengths sinks chosen choices tokens requests pages far_pages window every scale:f "
    "near_page near_slot far_page far_slot -> y"
)
def attended(k: Lanes, q: Val, near: Val, far: Val, table: Val, far_table: Val, starts: Val, lengths: Val, sinks: Val, chosen: Val,
             choices: Val, tokens: Val, requests: Val, pages: Val, far_pages: Val, window: Val, every: Val, scale: Val, near_page: Val,
             near_slot: Val, far_page: Val, far_slot: Val, y: Val, *, heads: int, group: int, page: int, slots: int, width: int,
             dtype: str, far_dtype: str, sunk: bool, picked: bool) -> None:  # fmt: skip
    """compressed_attention. A task: `heads` query heads of a token."""
    parts = group // heads
    for task in k.claim(tokens * parts):
        token, head = tokens - 1 - task // parts, task % parts * heads
        request, start = request_of(k, starts, requests, token), (token * group + head) * (width * 4)
        with k.either(request < 0) as (nobody, somebody):
            with nobody:
                for i in k.range(heads * width):
                    k.put_number(y + start + i * 4, k.lift(0.0, scale.type))
            with somebody:
                index = k.integer(lengths + request * 4) - k.integer(starts + request * 4 + 4) + token

                def rows(first: Val, until: Val, head: Val = head, start: Val = start, index: Val = index) -> list[Row]:
                    sink = [k.number(sinks + (head + g) * 4) if sunk else None for g in range(heads)]
                    return [
                        Row(q + start + g * width * 4, y + start + g * width * 4, first, until, index, sink[g], None) for g in range(heads)
                    ]

                own, one = table + request * pages * 4, k.lift(1)
                where = Keys(
                    near, near, own, near_page, near_slot, one, near_page, near_slot, scale, None, page, width, width, dtype, dtype, False
                )
                plain = Attention(k, where, rows(k.max(index - window + 1, 0), index))
                plain.walk()
                own, size = far_table + request * far_pages * 4, k.lanes if picked else slots
                where = Keys(
                    far, far, own, far_page, far_slot, one, far_page, far_slot, scale, None, size, width, width, far_dtype, far_dtype, False
                )
                if picked:
                    behind: Attention = Chosen(k, where, rows(k.lift(0), k.lift(ALL)), chosen + token * choices * 4, choices, slots, plain)
                else:
                    behind = Attention(k, where, rows(k.lift(0), (index + 1) // every - 1), plain)
                behind.walk()
                behind.finish()


def _even(p: Portable, pages: Tensor) -> Tensor:
    """Pages whose columns lie side by side, as a cache's do."""
    return pages if pages.strides[-1] == 1 else contiguous(p, pages)


def register(p: Portable) -> None:
    """compress, compressed_attention."""

    @p.kernel(ops.compress, declines=_unfolded)
    def compress(
        kv: Tensor, gate: Tensor, ape: Tensor, weight: Tensor, table: Tensor, slots: Tensor, starts: Tensor, lengths: Tensor, eps: float
    ) -> Tensor:
        kv, gate, ape, weight = _even(p, kv), _even(p, gate), float32_rows(p, ape), float32_rows(p, weight)
        table, slots, starts, lengths = map(contiguous_integers, (table, slots, starts, lengths))
        (every, columns), width, tokens, page = ape.shape, weight.shape[0], slots.shape[0], kv.shape[1]
        y = empty(HOST, (tokens, width))
        numbers: list[Word] = [tokens, lengths.shape[0], table.shape[1], eps, *kv.strides[:2], *gate.strides[:2], y]
        words: list[Word] = [kv, gate, ape, weight, table, slots, starts, lengths, *numbers]
        shape = {"every": every, "width": width, "series": columns // width, "page": page}
        work = COST_OF_A_CHANNEL * tokens * columns
        p.launch(folded, words, work, **shape, kv_dtype=dtype_of(kv), gate_dtype=dtype_of(gate))
        return y

    @p.kernel(ops.compressed_attention, declines=_unattended)
    def compressed_attention(
        q: Tensor, pages: Tensor, entries: Tensor, table: Tensor, entry_table: Tensor, starts: Tensor, lengths: Tensor, scale: float,
        window: int, every: int, sinks: Tensor | None, chosen: Tensor | None,
    ) -> Tensor:  # fmt: skip
        q, near, far = float32_rows(p, q), _even(p, pages), _even(p, entries)
        table, entry_table, starts, lengths = map(contiguous_integers, (table, entry_table, starts, lengths))
        chosen = None if chosen is None else contiguous_integers(chosen)
        sinks = None if sinks is None else float32_rows(p, sinks)
        y = empty(HOST, q.shape)
        seen = window + (entry_table.shape[1] * far.shape[1] if chosen is None else chosen.shape[1])
        words: list[Word] = [
            q, near, far, table, entry_table, starts, lengths, sinks, chosen, 0 if chosen is None else chosen.shape[1], q.shape[0],
            lengths.shape[0], table.shape[1], entry_table.shape[1], window, every, scale, *near.strides[:2], *far.strides[:2], y,
        ]  # fmt: skip
        heads = statics(p.isa.lanes, q, near, near)["heads"]
        shape = {"heads": heads, "group": q.shape[1], "page": near.shape[1], "slots": far.shape[1], "width": q.shape[2]}
        dtypes = {"dtype": dtype_of(near), "far_dtype": dtype_of(far)}
        p.launch(attended, words, q.size * seen // 8, **shape, **dtypes, sunk=sinks is not None, picked=chosen is not None)
        return y


def _unfolded(kv: Tensor, gate: Tensor, ape: Tensor, weight: Tensor, **numbers: Tensor) -> str | None:
    numbers.pop("eps")
    return not_float(kv=kv, gate=gate, ape=ape, weight=weight) or not_int32(**numbers)


def _unattended(
    q: Tensor, pages: Tensor, entries: Tensor, table: Tensor, entry_table: Tensor, starts: Tensor, lengths: Tensor, sinks: Tensor | None,
    chosen: Tensor | None, **_: object,
) -> str | None:  # fmt: skip
    picked = {} if chosen is None else {"chosen": chosen}
    integers = not_int32(table=table, entry_table=entry_table, starts=starts, lengths=lengths, **picked)
    return not_float(q=q, pages=pages, entries=entries, sinks=sinks) or integers
