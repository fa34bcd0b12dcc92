"""The vector side of the emitter: registers as wide as the instruction set's, floats of every dtype, reductions in a fixed order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from llvmlite import ir

from vtcore.providers.portable.emit import Emitter
from vtcore.providers.portable.floats import narrow, widen
from vtcore.providers.portable.isa import Isa
from vtcore.providers.portable.value import F32, I8, I16, I32, I64, VOID, Operand, Type, Val, type_name, vec

SIZES = {"float32": 4, "float16": 2, "bfloat16": 2, "int32": 4, "int64": 8}  # bytes of an element
SIZES |= dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "int8"), 1)
STORED = {1: I8, 2: I16, 4: F32}  # what a float of so many bytes is loaded as
UNIT = 64  # elements: parts of an array that threads share begin at multiples of it
SWAP = 12582912.0  # 1.5 * 2^23: a float of a magnitude under 2^22 added to it is rounded to an integer, ties to even


class Lanes(Emitter):
    """An emitter for one instruction set. `VF` and `VI` are its registers of float32 and int32."""

    def __init__(self, name: str, isa: Isa, params: int = 3) -> None:
        super().__init__(name, params)
        self.isa, self.lanes = isa, isa.lanes
        self.VF, self.VI = vec(F32, isa.lanes), vec(I32, isa.lanes)
        self.width = isa.lanes * 4  # bytes of a register

    # making vectors

    def const(self, x: float) -> Val:
        return self.lift(x, self.VF)

    def ints(self, x: int) -> Val:
        return self.lift(x, self.VI)

    def iota(self) -> Val:
        """0, 1, 2, ..."""
        return Val(self, ir.Constant(self.VI, list(range(self.lanes))))

    def splat(self, v: Val, lanes: int | None = None) -> Val:
        """A scalar in every lane."""
        n = lanes or self.lanes
        blank = ir.Constant(vec(v.type, n), ir.Undefined)
        one = Val(self, self.b.insert_element(blank, v.v, ir.Constant(I32, 0)))
        return self.shuffle(one, one, [0] * n)

    def shuffle(self, a: Val, b: Val, lanes: Sequence[int]) -> Val:
        """Lanes of a and b side by side, by their numbers."""
        return Val(self, self.b.shuffle_vector(a.v, b.v, ir.Constant(vec(I32, len(lanes)), list(lanes))))

    def insert(self, v: Val, x: Val, lane: int) -> Val:
        return Val(self, self.b.insert_element(v.v, x.v, ir.Constant(I32, lane)))

    def first(self, count: Operand) -> Val:
        """A mask: the first `count` lanes."""
        return self.iota() < self.splat(self.lift(count).cast("trunc", I32))

    # memory

    def floats(self, address: Val, dtype: str = "float32", count: Val | None = None, lanes: int | None = None) -> Val:
        """A register of floats from memory, widened to float32; of the first `count` alone (the others are zero, and aren't touched)."""
        return widen(self, self.some(address, vec(STORED[SIZES[dtype]], lanes or self.lanes), count), dtype)

    def some(self, address: Val, t: Type, count: Val | None = None) -> Val:
        """Load a vector, or the first `count` lanes of it."""
        if count is None:
            return self.load(address, t)
        mask = self.first(count)
        name = f"llvm.masked.load.{type_name(t)}.p0"
        return self.call(name, t, self.pointer(address), self.lift(1, I32), mask, self.lift(0, t))

    def put(self, address: Val, v: Val, dtype: str = "float32", count: Val | None = None) -> None:
        """Store a register of floats, rounded to the dtype; the first `count` alone."""
        v = narrow(self, v, dtype)
        if count is None:
            return self.store(address, v)
        name = f"llvm.masked.store.{type_name(v.type)}.p0"
        self.call(name, VOID, v, self.pointer(address), self.lift(1, I32), self.first(count))
        return None

    def number(self, address: Val, dtype: str = "float32") -> Val:
        """One float from memory as float32."""
        return widen(self, self.load(address, STORED[SIZES[dtype]]), dtype)

    def put_number(self, address: Val, v: Val, dtype: str = "float32") -> None:
        self.store(address, narrow(self, v, dtype))

    def integer(self, address: Val, dtype: str = "int32") -> Val:
        """One signed integer from memory as int64."""
        return self.load(address, I64) if dtype == "int64" else self.load(address, I32).cast("sext", I64)

    def vectors(self, n: Val) -> Iterator[tuple[Val, Val | None]]:
        """Walk over n elements by registers: (the first element's index, None), and once, for what is left, (its index, how many)."""
        whole = n - n % self.lanes
        for i in self.range(0, whole, self.lanes):
            yield i, None
        with self.when(whole < n):
            yield whole, n - whole

    # arithmetic

    def fma(self, a: Val, b: Val, c: Val) -> Val:
        return self.isa.fma(self, a, b, c)

    def abs(self, v: Val) -> Val:
        return self.call(f"llvm.fabs.{type_name(v.type)}", v.type, v)

    def sqrt(self, v: Val) -> Val:
        return self.call(f"llvm.sqrt.{type_name(v.type)}", v.type, v)

    def rint(self, v: Val) -> Val:
        """The nearest integer, ties to even, of floats of a magnitude under 2^22."""
        return v + SWAP - SWAP

    def rounded(self, v: Val) -> Val:
        """`rint` as int32."""
        return (v + SWAP).cast("bitcast", I32) - 0x4B400000

    def fold(self, v: Val, combine: Callable[[Val, Val], Val]) -> Val:
        """All lanes into one by halves: always the same tree."""
        n = v.type.count
        while n > 1:
            n //= 2
            v = combine(self.shuffle(v, v, range(n)), self.shuffle(v, v, range(n, 2 * n)))
        return v.lane(0)

    def hsum(self, v: Val) -> Val:
        return self.fold(v, lambda a, b: a + b)

    def hmax(self, v: Val) -> Val:
        return self.fold(v, self.max)

    def hmin(self, v: Val) -> Val:
        return self.fold(v, self.min)

    def like(self, v: Val, x: float) -> Val:
        """A constant of the type of v."""
        return self.lift(x, v.type)

    def where(self, mask: Val, a: Val, other: float = 0.0) -> Val:
        """a where the mask is set, else a constant."""
        return self.select(mask, a, self.lift(other, a.type))
