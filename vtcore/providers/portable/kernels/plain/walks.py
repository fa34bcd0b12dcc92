"""What kernels of ops with a state share: a head, or a block of channels, is a task; its requests and tokens follow in order."""

from __future__ import annotations

from vtcore.providers.portable.arrays import contiguous_integers, float32_rows, not_float
from vtcore.providers.portable.kernels.plain.attention import exponential
from vtcore.providers.portable.kernels.plain.kernel import not_int32
from vtcore.providers.portable.kernels.plain.words import Array, helper
from vtcore.providers.portable.launch import Word
from vtcore.providers.portable.provider import Portable
from vtcore.tensor import Tensor

BLOCK = 64  # channels of a task, where there are no heads


def declines(state: Tensor, source: Tensor, slots: Tensor, starts: Tensor, **floats: Tensor | None) -> str | None:
    """Why a kernel can't run this call."""
    if str(state.dtype) != "float32" or not state.contiguous:
        return f"state is {state.dtype} with strides {list(state.strides)}; the kernel keeps contiguous float32"
    return not_int32(source=source, slots=slots, starts=starts) or not_float(**floats)


def walked(source: Tensor, slots: Tensor, starts: Tensor) -> list[Word]:
    """The words of a walk: three addresses, the number of requests."""
    return [*map(contiguous_integers, (source, slots, starts)), source.size]


def rows(p: Portable, *tensors: Tensor | None) -> list[Word]:
    """Addresses of contiguous float32 arrays, 0 for None."""
    return [None if t is None else float32_rows(p, t) for t in tensors]


@helper
def border(starts: Array, r: int, tokens: int) -> int:
    """Where a run begins. Borders outside are the caller's error, and are moved inside."""
    return int(max(0, min(tokens, starts[r])))


@helper
def softplus(x: float) -> float:
    """ln(1 + exp(x)), 1e-9 near: with u = exp(-|x|), ln(1 + u) is twice artanh of u / (2 + u), which is 1/3 at most."""
    u = exponential(-abs(x))
    z = u / (2 + u)
    s, power, total = z * z, z, 0.0
    for i in range(9):
        total += power / (2 * i + 1)
        power *= s
    return max(x, 0.0) + 2 * total


@helper
def silu(x: float) -> float:
    """x * sigmoid(x)."""
    return x / (1 + exponential(-x))
