"""The largest values of a long row without sorting it: as integers that are ordered alike, a threshold is found bit by bit.

A row is first made shorter: of each block of it only the largest value counts. The k-th of those is no more than the k-th of all, and few
values are as large."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from llvmlite import ir

from vtcore.providers.portable.lanes import Lanes
from vtcore.providers.portable.value import F32, I1, I32, I64, Val, Var

GONE = -(1 << 31)  # a key under all others
NAN = GONE + 1
FINITE = -0x7F7FFFFF - 1  # the key of the lowest float that is finite
LAST = 0x7FFFFFFF  # an index behind all others
PAD = 16  # elements: of the largest register
DEEPEST = 32  # registers of a block
SPARE = 16  # values that are left, where the row is long enough, for each one that is asked for


@dataclass(frozen=True)
class Room:
    """Room for some of a row's elements: their weights (float64), numbers, values and keys, one array each."""

    weights: Val
    ids: Val
    values: Val
    keys: Val

    @staticmethod
    def nbytes(width: int) -> int:
        """What a row of this width needs."""
        return 20 * (width // PAD + 2) * PAD

    @staticmethod
    def of(k: Lanes, scratch: Val, width: Val, row: Val, rows: Val) -> Room:
        """That of the thread that runs; of the row, where there are fewer rows than threads."""
        length = (width // PAD + 2) * PAD
        mine = scratch + k.select(rows < k.threads, row, k.thread) * length * 20
        return Room(mine, mine + length * 8, mine + length * 12, mine + length * 16)


def key_of(k: Lanes, v: Val, nan: int = NAN) -> Val:
    """Integers in the order of floats; zeros are one, and what is not a number is under all others."""
    bits = (v + 0.0).cast("bitcast", I32)
    ordered = bits ^ (bits.signed_shift(31) & LAST)
    return k.select(v.unordered(), k.lift(nan, ordered.type), ordered)


def value_of(ordered: Val) -> Val:
    """The float of a key."""
    return (ordered ^ (ordered.signed_shift(31) & LAST)).cast("bitcast", F32)


def present(k: Lanes, keys: Val, count: Val | None) -> Val:
    """A register of keys; behind the last one, GONE."""
    v = k.some(keys, k.VI, count)
    return v if count is None else k.select(k.first(count), v, k.ints(GONE))


def keys_at(k: Lanes, address: Val, count: Val | None) -> Val:
    """The keys of a register of floats; behind the last one, GONE."""
    found = key_of(k, k.floats(address, "float32", count))
    return found if count is None else k.select(k.first(count), found, k.ints(GONE))


def lanes_set(k: Lanes, mask: Val) -> Iterator[Val]:
    """`for lane in lanes_set(k, mask): ...`: the lanes in which a mask is set, rising."""
    bits = k.var(as_bits(k, mask))
    with k.loop(lambda: bits.get() > 0):
        now = bits.get()
        yield k.call("llvm.cttz.i64", I64, now, k.lift(1, I1))
        bits.set(now & (now - 1))


def as_bits(k: Lanes, mask: Val) -> Val:
    """A mask as an int64, in which the first lane is the lowest bit."""
    return mask.bitcast(ir.IntType(mask.type.count)).cast("zext", I64)


def take(k: Lanes, keys: Val, n: Val) -> Val:
    """The lowest number (int32) of the largest of n keys, which then is gone."""
    best, where = k.var(k.ints(GONE)), k.var(k.ints(LAST))
    for i, count in k.vectors(n):
        best.set(k.max(present(k, keys + i * 4, count), best.get()))
    top = k.splat(k.hmax(best.get()))
    for i, count in k.vectors(n):
        index = k.splat(i.cast("trunc", I32)) + k.iota()
        same = present(k, keys + i * 4, count).eq(top)
        same = same if count is None else same & k.first(count)
        where.set(k.min(k.select(same, index, k.ints(LAST)), where.get()))
    found = k.hmin(where.get())
    k.store(keys + found.cast("sext", I64) * 4, k.lift(GONE, I32))
    return found


def highest(k: Lanes, holds: Callable[[Val], Val]) -> Val:
    """The largest key for which a condition holds that holds for all smaller ones, bit by bit."""
    found = k.var(GONE, I32)
    for i in k.range(32):
        candidate = found.get() + (k.lift(1 << 31) >> i).cast("trunc", I32)
        with k.when(holds(candidate)):
            found.set(candidate)
    return found.get()


def kth_key(k: Lanes, keys: Val, n: Val, kth: Val) -> Val:
    """The k-th largest of n keys, n in whole registers and k from 1."""

    def enough(candidate: Val) -> Val:
        total, bar = k.var(k.ints(0)), k.splat(candidate)
        for i in k.range(0, n, k.lanes):
            total.set(total.get() + k.select(k.load(keys + i * 4, k.VI) >= bar, k.ints(1), k.ints(0)))
        return k.hsum(total.get()).cast("sext", I64) >= kth

    return highest(k, enough)


def _shortened(k: Lanes, at: Val, width: Val, depth: Val, keys: Val) -> Val:
    """The keys of the largest values of each `depth` registers of a row, lane by lane: how many."""
    whole, n = width // k.lanes, k.var(0)
    for block in k.range(0, whole, depth):
        best = k.var(k.ints(GONE))
        for i in k.range(block, k.min(block + depth, whole)):
            best.set(k.max(keys_at(k, at + i * (k.lanes * 4), None), best.get()))
        k.store(keys + n.get() * 4, best.get())
        n.set(n.get() + k.lanes)
    with k.when(whole * k.lanes < width):
        begin = whole * k.lanes
        k.store(keys + n.get() * 4, keys_at(k, at + begin * 4, width - begin))
        n.set(n.get() + k.lanes)
    return n.get()


def collect(k: Lanes, at: Val, width: Val, low: Val, high: Val, room: Room) -> Val:
    """Keep the elements whose key is from low to high, in order, and their keys, filled up to whole registers: how many there are."""
    n = k.var(0)
    for i, count in k.vectors(width):
        keys = keys_at(k, at + i * 4, count)
        for lane in lanes_set(k, (keys >= k.splat(low)) & (keys <= k.splat(high))):
            _keep(k, at, i + lane, n, room)
    for i, count in k.vectors(n.get()):
        k.store(room.keys + i * 4, keys_at(k, room.values + i * 4, count))
    return n.get()


def _keep(k: Lanes, at: Val, i: Val, n: Var, room: Room) -> None:
    k.store(room.ids + n.get() * 4, i.cast("trunc", I32))
    k.store(room.values + n.get() * 4, k.number(at + i * 4))
    n.set(n.get() + 1)


def registers(k: Lanes, n: Val) -> Val:
    """Elements of the whole registers that hold n."""
    return (n + (k.lanes - 1)) // k.lanes * k.lanes


def collect_k(k: Lanes, at: Val, width: Val, kth: Val, room: Room, floor: int = NAN) -> tuple[Val, Val]:
    """Keep at least the k largest elements of a row, 1 <= k <= width, but for those under a key: how many there are, and the key of the
    k-th, or GONE."""
    depth = k.clamp(width // (kth * SPARE), 1, DEEPEST)
    least = kth_key(k, room.keys, _shortened(k, at, width, depth, room.keys), kth)
    count = collect(k, at, width, k.max(least, floor), k.lift(LAST, I32), room)
    return count, kth_key(k, room.keys, registers(k, count), kth)
