"""Mixtures of experts: each row's products with the matrices of its own numbers, which only the device knows.

A stack in one storage is one launch; matrices that lie apart are a launch each, in which rows of other experts do nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from vtcore import ops
from vtcore.op import Op
from vtcore.ops.mixture import count
from vtcore.providers.gpu.device import COUNTED, Device, too_large
from vtcore.providers.gpu.parts import MATRICES, ROWS, Part, parts
from vtcore.providers.gpu.table import TABLE, runs
from vtcore.providers.gpu.views import contiguous, integers, rows
from vtcore.providers.kernels import grouping
from vtcore.providers.kernels.declare import buffers, kernel
from vtcore.providers.kernels.ops import linear, linear_q8
from vtcore.providers.kernels.ops.linear import Choice, counted, seen_matrix, unreadable
from vtcore.tensor import Tensor, empty

COMBINE = kernel(
    "combine_experts",
    buffers(reads="y weights", writes="z"),
    "total width k weighted",
    """
    if (INDEX < total) {
        uint token = INDEX / width, column = INDEX % width;
        float sum = 0.0f;
        for (uint j = 0u; j < k; j++) {
            float v = LD_y((token * k + j) * width + column);
            sum = weighted > 0u ? FMA(LD_weights(token * k + j), v, sum) : sum + v;
        }
        ST_z(INDEX, sum);
    }
""",
)
WEIGH = kernel(
    "weigh_rows",
    buffers(reads="x weights", writes="y"),
    "total width k x_stride",
    """
    if (INDEX < total) ST_y(INDEX, LD_x(INDEX / width / k * x_stride + INDEX % width) * LD_weights(INDEX / width));
""",
)
STACKS = "gate", "up", "down"
FEW = 6  # rows for each matrix, on average, from which tiles are worth it
JOINS = {"silu": ops.silu_mul, "gelu": ops.gelu_mul, "situ": ops.situ_mul, "oai": ops.swiglu_oai}
Multiply = Callable[[Tensor, Tensor | None, Tensor, Choice], None]  # the matrix, bias, result, and who meets what


def together(stack: Tensor | Sequence[Tensor]) -> Tensor | None:
    """Matrices at one stride of one storage as a tensor with an axis more in front, or None."""
    if isinstance(stack, Tensor):
        return stack
    first, step = stack[0], stack[1].offset - stack[0].offset if len(stack) > 1 else 0
    alike = all(
        m.storage is first.storage and m.dtype == first.dtype and m.strides == first.strides and m.offset == first.offset + i * step
        for i, m in enumerate(stack)
    )
    return (
        Tensor(first.storage, (len(stack), *first.shape), first.dtype, (step, *first.strides), first.offset)
        if alike and 0 <= step * len(stack) < COUNTED
        else None
    )


def pieces(device: Device, stack: Any) -> Iterator[Part]:
    """A stack as launches take it: matrices by `entry`, their rows from `first` on."""
    if isinstance(stack, Tensor):
        yield from parts(device, stack, MATRICES)
    elif (whole := together(stack)) is not None and not too_large(whole, device.limits):
        yield Part(whole, 0, 0)
    else:
        for e, matrix in enumerate(stack):
            yield from (Part(seen, e, first) for seen, _, first in parts(device, matrix, ROWS))


def each_matrix(device: Device, multiply: Multiply, stack: Any, bias: Tensor | None, choice: Choice) -> Tensor:
    """[pairs N]: each pair's row, which several may share, times the matrix of its number."""
    y = empty(device, (choice.ids.size, (stack if isinstance(stack, Tensor) else stack[0]).shape[-2]))
    bias = bias if bias is None else contiguous(device, bias)
    for part, entry, first in pieces(device, stack):
        seen, _ = seen_matrix(device, part)
        length, each = (seen.shape[0], counted(seen, seen.strides[0])) if seen.ndim > 2 else (1, 0)
        columns = slice(first, first + seen.shape[-2])
        here = choice._replace(begin=entry, length=length, each=each)
        multiply(seen, bias if bias is None else bias[:, columns], y[:, columns], here)
    return y


def _multiplier(device: Device, rounds: bool, x: Tensor) -> Multiply:
    """Products with x, rounded to 8 bits or as it is."""
    if rounds:
        return partial(linear_q8.multiplied, device, *linear_q8.rounded(device, x))
    return partial(linear.multiplied, device, rows(device, x))


def _joined(device: Device, act: str, gate: Tensor | None, up: Tensor, alpha: float, limit: float) -> Tensor:
    """The activation between two products, by its own op."""
    op = JOINS.get(act, ops.relu_squared)
    given = {"gate": gate, "up": up, "x": up, "alpha": alpha, "limit": limit}
    made: Tensor = TABLE[op.name].function(device, **{name: given[name] for name in op.parameters})
    return made


def _choice(device: Device, rounds: bool, ids: Tensor, matrices: int) -> Choice:
    """Who meets what: in tiles, once there are some rows for each matrix."""
    many = linear_q8.MANY if rounds else linear.MANY
    tiled = FEW * matrices <= ids.size < grouping.MOST
    return Choice(ids, 1, matrices, grouping.tiles(device, ids, matrices, many) if tiled else None)


def mixed(
    device: Device, rounds: bool, x: Tensor, weights: Tensor, ids: Tensor, stacks: Sequence[Any], biases: Sequence[Tensor | None], act: str,
    alpha: float, limit: float, weigh_input: bool,
) -> Tensor:  # fmt: skip
    """The whole op."""
    (tokens, k), width = ids.shape, x.shape[1]
    weights, choice = contiguous(device, weights), _choice(device, rounds, integers(device, ids), count(stacks[1]))
    first = choice if weigh_input else choice._replace(share=max(k, 1))
    if weigh_input:
        seen = rows(device, x)
        x = empty(device, (tokens * k, width))
        device.each(WEIGH, [seen.tensor, weights, x], [width, max(k, 1), seen.stride], x.size)
    multiply = _multiplier(device, rounds, x)
    gate = None if stacks[0] is None else each_matrix(device, multiply, stacks[0], biases[0], first)
    inner = _joined(device, act, gate, each_matrix(device, multiply, stacks[1], biases[1], first), alpha, limit)
    y = each_matrix(device, _multiplier(device, rounds, inner), stacks[2], biases[2], choice)
    z = empty(device, (tokens, y.shape[1]))
    device.each(COMBINE, [y, weights, z], [y.shape[1], k, int(not weigh_input)], z.size)
    return z


def _enter(op: Op, rounds: bool) -> None:
    def declines(device: Device, **call: Any) -> str | None:
        for name in STACKS:
            stack = call[name]
            for matrix in stack if isinstance(stack, (list, tuple)) else () if stack is None else (stack,):
                if wrong := unreadable(name, matrix):
                    return wrong
        return None

    @runs(op, declines=declines, parts=dict.fromkeys(STACKS, MATRICES))
    def run(
        device: Device, x: Tensor, weights: Tensor, ids: Tensor, gate: Any, up: Any, down: Any, gate_bias: Tensor | None,
        up_bias: Tensor | None, down_bias: Tensor | None, act: str, alpha: float, limit: float, weigh_input: bool,
    ) -> Tensor:  # fmt: skip
        biases = (gate_bias, up_bias, down_bias)
        return mixed(device, rounds, x, weights, ids, (gate, up, down), biases, act, alpha, limit, weigh_input)


_enter(ops.experts, False)
_enter(ops.experts_q8, True)
