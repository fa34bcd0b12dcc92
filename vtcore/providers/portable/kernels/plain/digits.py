"""Order by digits: float32 values as integers that are ordered alike, 11 bits at a time, from the last digit to the first."""

from __future__ import annotations

from vtcore.providers.portable.kernels.plain.words import Array, helper

BITS = 11  # of a digit
BUCKETS = 1 << BITS
DIGITS = 3  # of 32 bits
TOP = 0xFFFFFFFF  # the key of what is not a number


@helper
def key(bits: int) -> int:
    """What orders a float32 of these bits: equal for both zeros, the largest for NaN."""
    size = bits & 0x7FFFFFFF
    if size > 0x7F800000:
        return TOP
    return 0x80000000 + size if bits == size else 0x80000000 - size


@helper
def kth_key(bits: Array, k: int, counts: Array) -> int:
    """The key of the k-th largest of a row, k from 1."""
    found = 0
    for digit in range(DIGITS - 1, -1, -1):
        shift = digit * BITS
        counts[:] = 0
        for i in range(bits.size):
            ordered = key(bits[i]) >> shift
            if ordered >> BITS == found:
                counts[ordered & (BUCKETS - 1)] += 1
        bucket = BUCKETS - 1
        while k > counts[bucket]:
            k -= counts[bucket]
            bucket -= 1
        found = (found << BITS) + bucket
    return found


@helper
def by_digit(bits: Array, ids: Array, n: int, digit: int, counts: Array, target: Array) -> None:
    """The first n of ids in the order of one digit of their values, the largest first; equals keep their order."""
    shift, begin = digit * BITS, 0
    counts[:] = 0
    for j in range(n):
        counts[(key(bits[ids[j]]) >> shift) & (BUCKETS - 1)] += 1
    for bucket in range(BUCKETS - 1, -1, -1):
        count = counts[bucket]
        counts[bucket] = begin
        begin += count
    for j in range(n):
        bucket = (key(bits[ids[j]]) >> shift) & (BUCKETS - 1)
        target[counts[bucket]] = ids[j]
        counts[bucket] += 1
