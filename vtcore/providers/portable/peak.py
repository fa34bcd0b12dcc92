"""A kernel of multiplications and additions alone: what a compute-bound kernel can reach at best in float32."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from vtcore.memory import HOST
from vtcore.providers.portable.jit import kernel
from vtcore.providers.portable.lanes import Lanes
from vtcore.providers.portable.value import Val
from vtcore.tensor import empty, of

if TYPE_CHECKING:
    from vtcore.providers.portable.provider import Portable

CHAINS = 12  # sums that don't wait for each other: more than latency times units, and they fit 16 registers
STEPS = 1000  # of a task


@kernel("factors tasks -> y")
def multiply_add(k: Lanes, factors: Val, tasks: Val, y: Val) -> None:
    """y[thread] = what is left of CHAINS registers after STEPS times x * a + b for each task."""
    a, b = k.load(factors, k.VF), k.load(factors + k.width, k.VF)
    sums = [k.var(k.const(1.0 + i)) for i in range(CHAINS)]  # unlike, or they would be computed once
    for _ in k.share(tasks):
        for _ in k.range(STEPS):
            for total in sums:
                total.set(k.fma(total.get(), a, b))
    whole = sums[0].get()
    for total in sums[1:]:
        whole = whole + total.get()
    k.store(y + k.thread * k.width, whole)


def measure(p: Portable, tasks: int, passes: int) -> list[float]:
    """Floating-point operations a second of each pass, on all of the provider's threads; one pass before them isn't counted."""
    lanes = p.isa.lanes
    factors = of(np.repeat(np.array([0.5, 1.0], np.float32), lanes))
    sums, rates = empty(HOST, (p.team.threads, lanes)), list[float]()
    for _ in range(passes + 1):
        start = time.perf_counter()
        p.launch(multiply_add, [factors, tasks, sums], tasks * STEPS * CHAINS * lanes)
        rates.append(2 * tasks * STEPS * CHAINS * lanes / (time.perf_counter() - start))
    return rates[1:]
