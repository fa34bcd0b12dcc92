"""Values of the emitter: an SSA value with operators, a mutable local, and the types that they have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

if TYPE_CHECKING:
    from vtcore.providers.portable.emit import Emitter

Type = Any  # an llvmlite type; the library has no annotations
I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
F16, F32, F64, PTR, VOID = ir.HalfType(), ir.FloatType(), ir.DoubleType(), ir.PointerType(), ir.VoidType()
FLOATS = (F16, F32, F64)
_INT = {"add": "add", "sub": "sub", "mul": "mul"}
_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul"}


def vec(element: Type, lanes: int) -> Type:
    """The type of `lanes` elements in a register."""
    return ir.VectorType(element, lanes)


def element_of(t: Type) -> Type:
    """A vector's element type; a scalar type itself."""
    return getattr(t, "element", t)


def type_name(t: Type) -> str:
    """As LLVM writes it in the names of its intrinsics: v16f32, i64."""
    return f"v{t.count}{t.element.intrinsic_name}" if isinstance(t, ir.VectorType) else t.intrinsic_name


class Val:
    """An SSA value with operators; Python numbers on the right become constants of the same type."""

    __slots__ = ("k", "v")

    def __init__(self, k: Emitter, v: Any) -> None:
        self.k, self.v = k, v

    @property
    def type(self) -> Type:
        return self.v.type

    @property
    def is_float(self) -> bool:
        return element_of(self.type) in FLOATS

    def _arith(self, op: str, other: Operand) -> Val:
        return self._do((_FLOAT if self.is_float else _INT)[op], other)

    def _do(self, instruction: str, other: Operand) -> Val:
        return Val(self.k, getattr(self.k.b, instruction)(self.v, self.k.lift(other, self.type).v))

    def _compare(self, op: str, other: Operand) -> Val:
        compare = self.k.b.fcmp_ordered if self.is_float else self.k.b.icmp_signed
        return Val(self.k, compare(op, self.v, self.k.lift(other, self.type).v))

    def __add__(self, other: Operand) -> Val:
        return self._arith("add", other)

    def __sub__(self, other: Operand) -> Val:
        return self._arith("sub", other)

    def __mul__(self, other: Operand) -> Val:
        return self._arith("mul", other)

    def __radd__(self, other: int | float) -> Val:
        return self + other

    def __rmul__(self, other: int | float) -> Val:
        return self * other

    def __truediv__(self, other: Operand) -> Val:
        return self._do("fdiv", other)

    def __floordiv__(self, other: Operand) -> Val:
        return self._do("udiv", other)

    def __mod__(self, other: Operand) -> Val:
        return self._do("urem", other)

    def __and__(self, other: Operand) -> Val:
        return self._do("and_", other)

    def __or__(self, other: Operand) -> Val:
        return self._do("or_", other)

    def __xor__(self, other: Operand) -> Val:
        return self._do("xor", other)

    def __rshift__(self, other: Operand) -> Val:
        return self._do("lshr", other)

    def __lshift__(self, other: Operand) -> Val:
        return self._do("shl", other)

    def __lt__(self, other: Operand) -> Val:
        return self._compare("<", other)

    def __gt__(self, other: Operand) -> Val:
        return self._compare(">", other)

    def __le__(self, other: Operand) -> Val:
        return self._compare("<=", other)

    def __ge__(self, other: Operand) -> Val:
        return self._compare(">=", other)

    def __neg__(self) -> Val:
        return Val(self.k, self.k.b.fneg(self.v) if self.is_float else self.k.b.neg(self.v))

    def eq(self, other: Operand) -> Val:
        """self == other, as a value."""
        return self._compare("==", other)

    def unordered(self) -> Val:
        """True where this is not a number."""
        return Val(self.k, self.k.b.fcmp_unordered("uno", self.v, self.v))

    def signed_shift(self, other: Operand) -> Val:
        """>> that copies the sign."""
        return self._do("ashr", other)

    def cast(self, how: str, element: Type) -> Val:
        """zext, sext, trunc, bitcast, sitofp, fptosi, fpext, fptrunc: to this element type, in as many lanes."""
        t = vec(element, self.type.count) if isinstance(self.type, ir.VectorType) else element
        return Val(self.k, getattr(self.k.b, how)(self.v, t))

    def bitcast(self, t: Type) -> Val:
        """The same bits as another type."""
        return Val(self.k, self.k.b.bitcast(self.v, t))

    def lane(self, i: int) -> Val:
        return Val(self.k, self.k.b.extract_element(self.v, ir.Constant(I32, i)))


Operand = Val | int | float


class Var:
    """A mutable local: a stack slot that LLVM turns back into a register."""

    __slots__ = ("k", "p")

    def __init__(self, k: Emitter, init: Val) -> None:
        self.k = k
        with k.b.goto_entry_block():
            self.p = k.b.alloca(init.type)
        self.set(init)

    def get(self) -> Val:
        return Val(self.k, self.k.b.load(self.p))

    def set(self, v: Operand) -> None:
        self.k.b.store(self.k.lift(v, self.p.allocated_type).v, self.p)
