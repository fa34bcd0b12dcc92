"""Paged attention: which rows work together, and who does what.

Rows that work together are neighbouring tokens of one request, and query heads of one head of keys. A row's bits don't depend on its
company (see attention.py), on the batch, or on threads."""

from __future__ import annotations

from typing import Any

from vtcore import ops
from vtcore.memory import HOST
from vtcore.providers.portable.arrays import contiguous, dtype_of, float32_rows, not_float, not_kept
from vtcore.providers.portable.jit import Static, kernel
from vtcore.providers.portable.kernels.attention import COLUMNS, Attention, Keys, Row, Scales
from vtcore.providers.portable.kernels.cascade import Cascade, Seen, begin_alike
from vtcore.providers.portable.kernels.chosen import ALL, Chosen
from vtcore.providers.portable.lanes import SIZES, Lanes
from vtcore.providers.portable.launch import Word
from vtcore.providers.portable.provider import Portable
from vtcore.providers.portable.value import Val
from vtcore.tensor import Tensor, empty

MANY = 32  # tokens from which neighbours work together
ACCUMULATORS = {16: 24, 8: 12, 4: 8}  # registers that hold scores or sums, by floats in a register


@kernel(
    "q keys values table starts lengths until sinks slopes chosen choices tokens requests pages window chunk scale:f cap:f "
    "q_token q_head k_page k_slot k_head k_column v_page v_slot v_head "
    "k_scales v_scales ks_page ks_slot ks_head vs_page vs_slot vs_head -> y"
)
def paged(k: Lanes, q: Val, keys: Val, values: Val, table: Val, starts: Val, lengths: Val, until: Val, sinks: Val, slopes: Val,
          chosen: Val, choices: Val, tokens: Val, requests: Val, pages: Val, window: Val, chunk: Val, scale: Val, cap: Val,
          q_token: Val, q_head: Val, k_page: Val, k_slot: Val, k_head: Val, k_column: Val, v_page: Val, v_slot: Val, v_head: Val,
          k_scales: Val, v_scales: Val, ks_page: Val, ks_slot: Val, ks_head: Val, vs_page: Val, vs_slot: Val, vs_head: Val, y: Val,
          *, together: int, heads: int, group: int, kv_heads: int, page: int, width: int, value_width: int,
          k_dtype: str, v_dtype: str, by_slot: bool, capped: bool, sunk: bool, sloped: bool, picked: bool, side: int) -> None:  # fmt: skip
    """A task: `heads` query heads of `together` tokens, or of fewer where another request begins. The last tokens first: they see most.

    side: so many tokens of requests that begin with the same pages see those together (cascade.py); 0: none do."""
    parts = group // heads

    def places(owned: list[tuple[Val, Val]], part: Val) -> tuple[Keys, list[Row]]:
        kv_head, head = part // parts, part * heads
        of_keys = Scales(k_scales + kv_head * ks_head * 4, ks_page, ks_slot) if k_dtype == "int8" else None
        of_values = Scales(v_scales + kv_head * vs_head * 4, vs_page, vs_slot) if v_dtype == "int8" else None
        where = Keys(
            keys + kv_head * k_head * SIZES[k_dtype], values + kv_head * v_head * SIZES[v_dtype], table + owned[0][1] * pages * 4,
            k_page, k_slot, k_column, v_page, v_slot, scale, cap if capped else None, k.lanes if picked else page, width, value_width,
            k_dtype, v_dtype, by_slot, of_keys, of_values,
        )  # fmt: skip
        rows = list[Row]()
        for token, request in owned:
            index = k.integer(lengths + request * 4) - k.integer(starts + request * 4 + 4) + token
            whole = (_first(k, index, window, chunk), k.integer(until + token * 4), index)
            seen = (k.lift(0), k.lift(ALL), index) if picked else whole
            for g in range(heads):
                source = q + (token * q_token + (head + g) * q_head) * 4
                target = y + (token * (group * kv_heads) + head + g) * (value_width * 4)
                extras = [k.number(array + (head + g) * 4) if used else None for array, used in ((sinks, sunk), (slopes, sloped))]
                rows.append(Row(source, target, *seen, *extras))
        return where, rows

    def attend(n: int, token: Val, part: Val, request: Val) -> None:
        where, rows = places([(token + t, request) for t in range(n)], part)
        (Chosen(k, where, rows, chosen + token * choices * 4, choices, page) if picked else Attention(k, where, rows)).run()

    def nothing(token: Val, part: Val) -> None:
        for i in k.range(heads * value_width):
            k.put_number(y + ((token * (group * kv_heads) + part * heads) * value_width + i) * 4, k.lift(0.0, scale.type))

    def one(token: Val, part: Val) -> None:
        request = request_of(k, starts, requests, token)
        with k.either(request < 0) as (nobody, somebody):
            with nobody:
                nothing(token, part)
            with somebody:
                attend(1, token, part, request)

    def cascade(token: Val, part: Val, count: Val) -> None:
        def owner(row: Val) -> Val:
            request = request_of(k, starts, requests, row)
            with k.when(request < 0):
                nothing(row, part)
            return request

        seen = Seen(table, pages, until, (window < 1) & (chunk < 1), page)
        Cascade(k, seen, lambda owned: places(owned, part), side, heads).run(token, count, owner)

    def apart(token: Val, part: Val, count: Val) -> None:
        if together == 1:
            return nothing(token, part)
        for t in k.range(token, token + count):
            one(t, part)
        return None

    step, alike = k.lift(together), k.lift(0) > 0
    if side:
        alike = begin_alike(k, table, requests, pages) & (tokens * (parts * kv_heads) >= k.threads * side)
        step = k.select(alike, k.lift(side), step)
    groups = (tokens + step - 1) // step
    for task in k.claim(groups * (parts * kv_heads)):
        token, part = (groups - 1 - task // (parts * kv_heads)) * step, task % (parts * kv_heads)
        count = k.min(step, tokens - token)
        request = request_of(k, starts, requests, token)
        last = request_of(k, starts, requests, token + count - 1)
        whole = request.eq(last) & (request > -1) & count.eq(together)
        with k.either(whole) as (as_one, not_whole):
            with as_one:
                attend(together, token, part, request)
            with not_whole:
                if not side:
                    apart(token, part, count)
                    continue
                with k.either(alike) as (shared, each):
                    with shared:
                        cascade(token, part, count)
                    with each:
                        apart(token, part, count)


def request_of(k: Lanes, starts: Val, requests: Val, token: Val) -> Val:
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


def register(p: Portable) -> None:
    """Attention over pages."""

    @p.kernel(ops.paged_attention, declines=declines)
    def paged_attention(
        q: Tensor, k_pages: Tensor, v_pages: Tensor, table: Tensor, starts: Tensor, lengths: Tensor, until: Tensor, scale: float,
        window: int, chunk: int, cap: float, sinks: Tensor | None, chosen: Tensor | None, slopes: Tensor | None,
        k_scales: Tensor | None, v_scales: Tensor | None,
    ) -> Tensor:  # fmt: skip
        q = q if dtype_of(q) == "float32" and q.strides[-1] == 1 else contiguous(p, q)
        sinks, slopes = (None if x is None else float32_rows(p, x) for x in (sinks, slopes))
        y = empty(HOST, (*q.shape[:2], v_pages.shape[-1]))
        if not y.size:
            return y
        words: list[Word] = [
            q, k_pages, v_pages, table, starts, lengths, until, sinks, slopes, chosen, 0 if chosen is None else chosen.shape[1],
            q.shape[0], lengths.shape[0], table.shape[1], window, chunk, scale, cap or 1.0,
            *q.strides[:2], *k_pages.strides, *v_pages.strides[:3], k_scales, v_scales, *_steps(k_scales), *_steps(v_scales), y,
        ]  # fmt: skip
        work = q.size * (table.shape[1] * k_pages.shape[1] if chosen is None else chosen.shape[1]) // 8
        static = statics(p.isa.lanes, q, k_pages, v_pages, chosen, cascade=p.cascade)
        p.launch(paged, words, work, **static, capped=cap > 0, sunk=sinks is not None, sloped=slopes is not None)
        return y


def _steps(scales: Tensor | None) -> tuple[int, ...]:
    """From page to page, slot to slot, head to head."""
    return (0, 0, 0) if scales is None else scales.strides


def statics(
    lanes: int, q: Tensor, k_pages: Tensor, v_pages: Tensor, chosen: Tensor | None = None, *, cascade: bool = True
) -> dict[str, Static]:
    """What is compiled in: the shapes, and how many rows work together, which the registers for a page's scores limit."""
    (tokens, q_heads, width), (_, page, kv_heads, _) = q.shape, k_pages.shape
    group, registers = q_heads // kv_heads, -(-page // lanes) if chosen is None else 1
    most = max(1, min(lanes, ACCUMULATORS[lanes] // max(registers, COLUMNS)))
    heads = max(h for h in range(1, most + 1) if group % h == 0)
    together = min(4, most // heads) if tokens >= MANY and chosen is None else 1
    side = together if together > 1 else most // heads
    side = side if cascade and chosen is None and side > 1 else 0
    return {
        "side": side, "together": together, "heads": heads, "group": group, "kv_heads": kv_heads, "page": page, "width": width,
        "value_width": v_pages.shape[-1], "k_dtype": dtype_of(k_pages), "v_dtype": dtype_of(v_pages),
        "by_slot": chosen is None and k_pages.strides[1] == 1,
        "picked": chosen is not None,
    }  # fmt: skip


def declines(
    q: Tensor, k_pages: Tensor, v_pages: Tensor, table: Tensor, starts: Tensor, lengths: Tensor, until: Tensor,
    sinks: Any, slopes: Any, chosen: Any, k_scales: Any = None, v_scales: Any = None, **_: object,
) -> str | None:  # fmt: skip
    """Why the kernel won't run a call."""
    for name, t in {"table": table, "starts": starts, "lengths": lengths, "until": until, "chosen": chosen}.items():
        if t is not None and (dtype_of(t) != "int32" or not t.contiguous):
            return f"{name} is {t.dtype} with strides {list(t.strides)}; the kernel reads contiguous int32"
    if any(n == 0 for t in (k_pages, v_pages) for n in t.shape):
        return f"k_pages is {list(k_pages.shape)}: there are no entries"
    if k_pages.strides[3] != 1 and (k_pages.strides[1] != 1 or chosen is not None):
        return f"k_pages has strides {list(k_pages.strides)}; the kernel wants columns side by side (or slots, if they aren't chosen)"
    if v_pages.strides[3] != 1:
        return f"v_pages has strides {list(v_pages.strides)}; the kernel wants columns side by side"
    for name, t in {"k_scales": k_scales, "v_scales": v_scales}.items():
        if t is not None and dtype_of(t) != "float32":
            return f"{name} is {t.dtype}; the kernel reads float32"
    return not_kept(k_pages=k_pages, v_pages=v_pages) or not_float(q=q, sinks=sinks, slopes=slopes)
