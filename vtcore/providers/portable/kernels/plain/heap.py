"""The k best of a row, in a heap whose root is the worst of them. Values fall; among equals the lowest index is first; NaN comes last."""

from __future__ import annotations

from vtcore.providers.portable.kernels.plain.words import Array, helper


@helper
def before(a: float, i: int, b: float, j: int) -> bool:
    """Whether value a at index i comes before value b at index j."""
    if b != b:
        return a == a or i < j
    return a > b or (a == b and i < j)


@helper
def sink(values: Array, ids: Array, size: int, at: int) -> None:
    """Move an entry down until it comes after both entries below it."""
    value, index = values[at], ids[at]
    child = 2 * at + 1
    while child < size:
        if child + 1 < size and before(values[child], ids[child], values[child + 1], ids[child + 1]):
            child += 1
        if before(values[child], ids[child], value, index):
            break
        values[at], ids[at] = values[child], ids[child]
        at, child = child, 2 * child + 1
    values[at], ids[at] = value, index


@helper
def keep_best(x: Array, values: Array, ids: Array) -> None:
    """Fill values and ids [k] with the k best of x, best first."""
    k = values.size
    for i in range(k):
        values[i], ids[i] = x[i], i
    for i in range(k // 2 - 1, -1, -1):
        sink(values, ids, k, i)
    for i in range(k, x.size):
        if before(x[i], i, values[0], ids[0]):
            values[0], ids[0] = x[i], i
            sink(values, ids, k, 0)
    for i in range(k - 1, 0, -1):
        values[0], values[i] = values[i], values[0]
        ids[0], ids[i] = ids[i], ids[0]
        sink(values, ids, i, 0)
