"""experts and experts_q8: pairs of tokens and experts sorted by expert, so that each panel of a matrix meets all its rows at once.

The order of additions for a row is that of `linear`, whoever shares its expert. Only experts that are asked for are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from vtcore import ops
from vtcore.memory import HOST
from vtcore.providers.portable.arrays import contiguous_integers, dtype_of, float32_rows, kept, not_float, not_integer
from vtcore.providers.portable.formats.coded import layout_of
from vtcore.providers.portable.jit import Static, kernel
from vtcore.providers.portable.kernels.elementwise import apply_one, apply_two, situ_formula
from vtcore.providers.portable.kernels.linear import block_sums, dense_sums, steps_of, sums_of
from vtcore.providers.portable.kernels.linear_q8 import round_all, rounded_sums
from vtcore.providers.portable.kernels.tiles import Output, readable_bias
from vtcore.providers.portable.lanes import SIZES, Lanes
from vtcore.providers.portable.launch import Word
from vtcore.providers.portable.panels import Panels, dense_weight, not_codes, panel_count, panels_of
from vtcore.providers.portable.provider import Portable
from vtcore.providers.portable.value import I32, I64, Val, Var
from vtcore.tensor import Tensor, empty, of

TILES = (4, 2, 1)  # rows at once, as long as there are so many
FORMULAS = {"silu": "silu_mul", "gelu": "gelu_mul", "oai": "swiglu_oai"}


class Stack(NamedTuple):
    """The panels of all experts: their addresses int64 [E], and the first one's shape and kind, which are all's."""

    table: Tensor
    like: Panels
    held: tuple[Any, ...]


class Plan(NamedTuple):
    """Pairs sorted by expert. int32: begins [E + 1], how many experts have any, those experts [E], cursors [E], pairs in order."""

    data: Tensor
    pairs: int
    experts: int
    ids: Tensor


def matrices(stack: Any) -> tuple[Tensor, ...]:
    """Each expert's."""
    return tuple(stack) if isinstance(stack, (list, tuple)) else tuple(stack[e] for e in range(stack.shape[0]))


def stack_of(p: Portable, stack: Any, ids: Tensor | None = None) -> Stack:
    """The panels of a stack: all of them where it was prepared, or is called in a step that is recorded; else those that `ids` name."""
    several = isinstance(stack, (list, tuple))
    first = stack[0] if several else stack
    key = (p.name, str(p.isa), "experts", first.offset, first.shape, first.strides, *(id(m.storage) for m in (stack if several else ())))
    made: Stack | None = first.storage.forms.get(key)
    if made is None and ids is not None and not p.launcher.recording:
        return _some_of(p, matrices(stack), ids)
    if made is None:
        each = matrices(stack)
        panels = [panels_of(p, m) for m in each]
        table = of(np.array([made.data.address for made in panels], np.int64))
        made = first.storage.forms[key] = Stack(table, panels[0], tuple(m.storage for m in each[1:] if several))
    return made


def _some_of(p: Portable, each: Sequence[Tensor], ids: Tensor) -> Stack:
    """Where weights don't stay in memory, experts that nobody asks for aren't read for it. Each matrix keeps its own panels."""
    chosen = np.unique(np.clip(ids.bare(), 0, len(each) - 1)).tolist()
    panels = {e: panels_of(p, each[e]) for e in chosen}
    addresses = [panels[e].data.address if e in panels else 0 for e in range(len(each))]
    return Stack(of(np.array(addresses, np.int64)), panels[chosen[0]], ())


@kernel("ids pairs experts -> plan")
def sort_pairs(k: Lanes, ids: Val, pairs: Val, experts: Val, plan: Val, *, dtype: str) -> None:
    """A Plan, in the order of pairs for each expert; numbers that no expert has count as the nearest."""
    active, cursors = plan + (experts + 2) * 4, plan + (experts * 2 + 2) * 4
    order = cursors + experts * 4

    def expert(i: Val) -> Val:
        return k.clamp(k.integer(ids + i * SIZES[dtype], dtype), 0, experts - 1)

    def put(address: Val, v: Val) -> None:
        k.store(address, v.cast("trunc", I32))

    for _ in k.claim(k.lift(1)):
        for e in k.range(experts):
            put(cursors + e * 4, k.lift(0))
        for i in k.range(pairs):
            at = cursors + expert(i) * 4
            put(at, k.integer(at) + 1)
        total, several = k.var(0), k.var(0)
        for e in k.range(experts):
            n = k.integer(cursors + e * 4)
            put(plan + e * 4, total.get())
            put(cursors + e * 4, total.get())
            total.set(total.get() + n)
            with k.when(n > 0):
                put(active + several.get() * 4, e)
                several.set(several.get() + 1)
        put(plan + experts * 4, total.get())
        put(plan + (experts + 1) * 4, several.get())
        for i in k.range(pairs):
            at = cursors + expert(i) * 4
            place = k.integer(at)
            put(order + place * 4, i)
            put(at, place + 1)


@kernel("x sums plan table bias n steps experts panels chunk share -> y")
def grouped(k: Lanes, x: Val, sums: Val, plan: Val, table: Val, bias: Val, n: Val, steps: Val, experts: Val, panels: Val, chunk: Val,
            share: Val, y: Val, *, how: str, kind: str, bias_dtype: str, several: bool) -> None:  # fmt: skip
    """y [pairs, n] = x[pair // share] times the matrix of the pair's expert. how: dense, blocks, or rounded (x as activation blocks)."""
    order = plan + (experts * 3 + 2) * 4
    for task in k.claim(k.integer(plan + (experts + 1) * 4) * panels, chunk):
        e, panel = k.integer(plan + (experts + 2 + task // panels) * 4), task % panels
        low, high, w = k.integer(plan + e * 4), k.integer(plan + e * 4 + 4), k.load(table + e * 8, I64)
        out = Output(y, n, k.select(bias > 0, bias + e * n * SIZES[bias_dtype], bias), bias_dtype)

        def tile(first: Val, count: int, w: Val = w, panel: Val = panel, out: Output = out) -> None:
            pairs = [k.integer(order + (first + r) * 4) for r in range(count)]
            out.store(k, _products(k, how, kind, x, sums, [p // share for p in pairs], w, panel, steps), pairs, panel)

        for count in TILES if several else TILES[-1:]:
            whole = low + (high - low) // count * count
            for first in k.range(low, whole, count):
                tile(first, count)
            low = whole


def _products(k: Lanes, how: str, kind: str, x: Val, sums: Val, rows: list[Val], w: Val, panel: Val, steps: Val) -> list[Var]:
    """One tile by one panel."""
    if how == "dense":
        at = [x + row * steps * 4 for row in rows]
        return dense_sums(k, at, w + panel * steps * (2 * k.lanes * SIZES[kind]), steps, kind)
    layout = layout_of(kind)
    w = w + panel * steps * layout.block_bytes(k)
    return rounded_sums(k, layout, x, rows, w, steps) if how == "rounded" else block_sums(k, layout, x, sums, rows, w, steps)


@kernel("y weights pairs width tokens -> out")
def combined(k: Lanes, y: Val, weights: Val, pairs: Val, width: Val, tokens: Val, out: Val, *, weighted: bool) -> None:
    """out[t] = the sum over a token's pairs of weight * y, in their order."""
    for t in k.share(tokens):
        for i, count in k.vectors(width):
            total = k.var(k.const(0.0))
            total.set(0.0)
            for j in k.range(pairs):
                v = k.floats(y + ((t * pairs + j) * width + i) * 4, "float32", count)
                v = v * k.splat(k.number(weights + (t * pairs + j) * 4)) if weighted else v
                total.set(total.get() + v)
            k.put(out + (t * width + i) * 4, total.get(), "float32", count)


def planned(p: Portable, ids: Tensor, experts: int) -> Plan:
    """Pairs in the order of their experts."""
    ids = contiguous_integers(ids)
    data = empty(HOST, (3 * experts + 2 + ids.size,), np.int32)
    p.launch(sort_pairs, [ids, ids.size, experts, data], ids.size, dtype=dtype_of(ids))
    return Plan(data, ids.size, experts, ids)


def multiply(p: Portable, rounded: bool, x: Tensor, stack: Any, bias: Tensor | None, plan: Plan) -> Tensor:
    """[pairs, N]: each pair's row of x (which several may share) times its expert's matrix."""
    table, like, _ = stack_of(p, stack, plan.ids)
    dense = like.kind in SIZES
    how, sums = "dense" if dense else "rounded" if rounded else "blocks", None
    given = x
    if how == "rounded":
        given = kept(x, (p, like.kind), partial(round_all, p, x, like.kind))
    elif how == "blocks" and (layout := layout_of(like.kind)).offsets:
        sums = kept(x, (p, layout.width), partial(sums_of, p, x, layout.width))
    bias, bias_dtype = readable_bias(p, bias)
    out, panels = empty(HOST, (plan.pairs, like.rows)), panel_count(p, like.rows)
    chunk = max(1, min(16, panels // (p.team.threads * 4)))
    share = plan.pairs // x.shape[0]
    words: list[Word] = [given, sums, plan.data, table, bias, like.rows, steps_of(like), plan.experts, panels, chunk, share, out]
    static: dict[str, Static] = {"how": how, "kind": like.kind, "bias_dtype": bias_dtype, "several": plan.pairs > plan.experts}
    p.launch(grouped, words, plan.pairs * like.rows * like.columns // 8, **static)
    return out


def mix(
    p: Portable, rounded: bool, x: Tensor, weights: Tensor, ids: Tensor, stacks: Sequence[Any], biases: Sequence[Tensor | None], act: str,
    alpha: float, limit: float, weigh_input: bool,
) -> Tensor:  # fmt: skip
    """The whole op."""
    tokens, k = ids.shape
    out = empty(HOST, (tokens, matrices(stacks[2][:1])[0].shape[0]))
    if not tokens or not k:
        return out
    x, weights = float32_rows(p, x), float32_rows(p, weights)
    if weigh_input:
        x = apply_two(p, "mul", x.reshape(tokens, 1, x.shape[1]), weights.reshape(tokens, k, 1)).reshape(tokens * k, x.shape[1])
    plan = planned(p, ids, len(stacks[1]) if isinstance(stacks[1], (list, tuple)) else stacks[1].shape[0])
    up = multiply(p, rounded, x, stacks[1], biases[1], plan)
    if act == "relu2":
        inner = apply_one(p, "relu_squared", up)
    else:
        gate = multiply(p, rounded, x, stacks[0], biases[0], plan)
        a, b = {"silu": (limit, 0.0), "gelu": (0.0, 0.0)}.get(act, (alpha, limit))
        inner = apply_two(p, FORMULAS.get(act) or situ_formula(limit), gate, up, a, b)
    y = multiply(p, rounded, inner, stacks[2], biases[2], plan)
    p.launch(combined, [y, weights, k, out.shape[1], tokens, out], y.size, weighted=not weigh_input)
    return out


def _declines(rounded: bool, x: Tensor, weights: Tensor, ids: Tensor, stacks: Sequence[Any], biases: Sequence[Any]) -> str | None:
    wrong = not_integer(ids=ids) or not_float(x=x, weights=weights, **dict(zip(("gate_bias", "up_bias", "down_bias"), biases, strict=True)))
    for stack in (s for s in stacks if s is not None):
        kinds = {m.dtype for m in stack} if isinstance(stack, (list, tuple)) else {stack.dtype}
        if len(kinds) > 1:
            return f"experts are {', '.join(map(str, kinds))}; the kernel takes one type for all of a stack"
        one = matrices(stack[:1])[0]
        dense = dense_weight(one)
        wrong = wrong or (None if dense and not rounded else f"a weight is {one.dtype}" if dense else not_codes(one))
    return wrong


def register(p: Portable) -> None:
    """experts and experts_q8, and their preparation."""
    _register(p, ops.experts, False)
    _register(p, ops.experts_q8, True)


def _register(p: Portable, op: Any, rounded: bool) -> None:
    def declines(x: Tensor, weights: Tensor, ids: Tensor, gate: Any, up: Any, down: Any, gate_bias: Tensor | None, up_bias: Tensor | None,
                 down_bias: Tensor | None, act: str, alpha: float, limit: float, weigh_input: bool) -> str | None:  # fmt: skip
        return _declines(rounded, x, weights, ids, (gate, up, down), (gate_bias, up_bias, down_bias))

    @p.kernel(op, declines=declines)
    def run(x: Tensor, weights: Tensor, ids: Tensor, gate: Any, up: Any, down: Any, gate_bias: Tensor | None, up_bias: Tensor | None,
            down_bias: Tensor | None, act: str, alpha: float, limit: float, weigh_input: bool) -> Tensor:  # fmt: skip
        biases = (gate_bias, up_bias, down_bias)
        return mix(p, rounded, x, weights, ids, (gate, up, down), biases, act, alpha, limit, weigh_input)

    def prepare(weight: Any) -> None:
        each: Callable[[Any], Any] = partial(stack_of, p) if weight.ndim == 3 else partial(panels_of, p)
        if (dense_weight(weight) and not rounded) or (not dense_weight(weight) and not_codes(weight) is None):
            each(weight)

    p.preparers[op.name] = prepare
