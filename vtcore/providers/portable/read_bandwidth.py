"""A kernel that reads memory and does next to nothing with it: what a memory-bound kernel can reach at best."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from vtcore.memory import HOST
from vtcore.providers.portable.jit import kernel
from vtcore.providers.portable.lanes import Lanes
from vtcore.providers.portable.value import Val
from vtcore.tensor import empty

if TYPE_CHECKING:
    from vtcore.providers.portable.provider import Portable

REGISTERS = 8  # of one task, each combined by itself. With more, LLVM reorders the loads, and the prefetcher wants them in order


@kernel("x tasks -> y")
def read_all(k: Lanes, x: Val, tasks: Val, y: Val) -> None:
    """y[thread] = all int32 of the thread's share of x, combined by exclusive or. A task is REGISTERS of them."""
    sums = [k.var(k.ints(0), k.VI) for _ in range(REGISTERS)]
    for task in k.share(tasks):
        at = x + task * (REGISTERS * k.width)
        for i, total in enumerate(sums):
            total.set(total.get() ^ k.load(at + i * k.width, k.VI))
    whole = sums[0].get()
    for total in sums[1:]:
        whole = whole ^ total.get()
    k.store(y + k.thread * k.width, whole)


def measure(p: Portable, nbytes: int, passes: int) -> list[float]:
    """Bytes a second of each pass over an array of about `nbytes`, on all of the provider's threads; one pass before them isn't counted."""
    width = p.isa.lanes * 4
    tasks = max(p.team.threads, nbytes // (REGISTERS * width))
    array = p.slabs.tensor(tasks * REGISTERS * width)
    array.numpy()[...] = 1  # pages that nobody has written are all one page of zeros
    sums, rates = empty(HOST, (p.team.threads, p.isa.lanes), np.int32), list[float]()
    for _ in range(passes + 1):
        start = time.perf_counter()
        p.launch(read_all, [array, tasks, sums], array.nbytes)
        rates.append(array.nbytes / (time.perf_counter() - start))
    return rates[1:]
