"""Numbers that follow from positions, but for angles."""

from __future__ import annotations

from vtcore import ops
from vtcore.memory import HOST
from vtcore.providers.portable import maths
from vtcore.providers.portable.arrays import contiguous_integers, dtype_of, not_integer
from vtcore.providers.portable.jit import kernel
from vtcore.providers.portable.lanes import SIZES, Lanes
from vtcore.providers.portable.launch import Word
from vtcore.providers.portable.provider import Portable
from vtcore.providers.portable.value import F32, Val
from vtcore.tensor import Tensor, empty

COST = 20  # work of a position


@kernel("positions n period shift rate:f -> y")
def growth(k: Lanes, positions: Val, n: Val, period: Val, shift: Val, rate: Val, y: Val, *, dtype: str) -> None:
    """y = 1 + rate * log(1 + (position + shift) // period)."""
    for i in k.share(n):
        periods = (k.integer(positions + i * SIZES[dtype], dtype) + shift) // period
        k.store(y + i * 4, maths.log(k, (periods + 1).cast("sitofp", F32)) * rate + 1.0)


def register(p: Portable) -> None:
    """position_growth."""

    @p.kernel(ops.position_growth, declines=lambda positions, **_: not_integer(positions=positions))
    def position_growth(positions: Tensor, period: int, rate: float, shift: int) -> Tensor:
        positions = contiguous_integers(positions)
        y = empty(HOST, positions.shape)
        words: list[Word] = [positions, positions.size, period, shift, rate, y]
        p.launch(growth, words, COST * positions.size, dtype=dtype_of(positions))
        return y
