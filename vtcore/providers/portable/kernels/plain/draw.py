"""random_sample: the race of the definition, run only between those who can win it.

For u in (0, 1) it holds that 1 - u <= -log(u) <= (1 - u) / u. So bounds of prob / -log(u) need no logarithm, and almost every token's
upper bound is under the lower bound of another one. NumPy computes the few logarithms that are left."""

from __future__ import annotations

import numpy as np

from vtcore import ops
from vtcore.memory import HOST
from vtcore.providers.portable.arrays import float32_rows, not_float
from vtcore.providers.portable.kernels.plain.kernel import plain, recording
from vtcore.providers.portable.kernels.plain.words import DOUBLE, INT, ULONG, Array, array, claim, floats, helper, words
from vtcore.providers.portable.provider import Portable
from vtcore.tensor import Tensor, empty, of

GOLDEN, FIRST, SECOND = ULONG(0x9E3779B97F4A7C15), ULONG(0xBF58476D1CE4E5B9), ULONG(0x94D049BB133111EB)
SLACK = 1 - 1e-9  # of a bound, for roundings
MOST = 64  # tokens of a row that may still win; where there are more, the definition says who does


@plain("probs seeds steps width rows -> counts ids uniforms")
def race(table: int, thread: int, threads: int) -> None:
    """For each row: how many tokens may win, which [R MOST], and their u."""
    w = words(table)
    width, rows = w[3], w[4]
    seeds, steps, counts = array(w[1], rows, ULONG), array(w[2], rows, ULONG), array(w[5], rows, INT)
    r = claim(table)
    while r < rows:
        start = mixed(mixed(seeds[r]) + steps[r])
        ids, uniforms = array(w[6] + 4 * MOST * r, MOST, INT), array(w[7] + 8 * MOST * r, MOST, DOUBLE)
        counts[r] = contenders(floats(w[0], r, width), start, ids, uniforms)
        r = claim(table)


@helper
def mixed(z: np.uint64) -> np.uint64:
    """SplitMix64: the next state, finished."""
    z = z + GOLDEN
    z = (z ^ (z >> ULONG(30))) * FIRST
    z = (z ^ (z >> ULONG(27))) * SECOND
    return z ^ (z >> ULONG(31))


@helper
def contenders(probs: Array, start: np.uint64, ids: Array, uniforms: Array) -> int:
    """Those who may win, in order: how many. 0 where that is for the definition to say: more than MOST, or none above zero.

    The first that is not a number wins, whoever came before."""
    count, best = 0, DOUBLE(0)
    for i in range(probs.size):
        prob = DOUBLE(probs[i])
        if prob <= 0:
            continue
        u = DOUBLE(mixed(start + ULONG(i)) >> ULONG(12)) * 2.0**-52 + 2.0**-53
        if prob / (1 - u) < best:
            continue
        if count == MOST:
            return 0
        ids[count], uniforms[count] = i, u
        count += 1
        if prob != prob:
            break
        best = max(best, prob * u / (1 - u) * SLACK)
    return count


def winner(row: Array, count: int, ids: Array, uniforms: Array) -> int:
    """Who wins a row's race: NumPy's logarithms decide, as in the definition. count > 0."""
    ids = ids[:count]
    return int(ids[np.argmax(row[ids].astype(np.float64) / -np.log(uniforms[:count]))])


def register(p: Portable) -> None:
    """random_sample."""

    @p.kernel(ops.random_sample, declines=lambda probs, **_: not_float(probs=probs) or recording(p))
    def random_sample(probs: Tensor, seeds: Tensor, steps: Tensor) -> Tensor:
        rows, width = probs.shape
        x, out = float32_rows(p, probs), np.zeros(rows, np.int32)
        keys = [t.bare().astype(np.uint64) for t in (seeds, steps)]
        counts, ids, uniforms = empty(HOST, (rows,), np.int32), empty(HOST, (rows, MOST), np.int32), empty(HOST, (rows, MOST), np.float64)
        p.launch(race, [x, *map(of, keys), width, rows, counts, ids, uniforms], 4 * x.size)
        for r, entry in enumerate(zip(x.bare(), counts.bare(), ids.bare(), uniforms.bare(), strict=True)):
            one = slice(r, r + 1)
            out[r] = winner(*entry) if entry[1] else ops.random_sample.reference(x.bare()[one], *(k[one] for k in keys))[0]
        return of(out)
