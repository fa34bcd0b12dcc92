"""A structured emitter over llvmlite: Python `for` and `with` statements build native loops, operators build instructions.

A kernel is `void(int64 *table, int64 thread, int64 threads)`. Scalars are int64 (addresses included) unless their type says otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from llvmlite import ir

from vtcore.providers.portable.value import FLOATS, I8, I64, PTR, VOID, Operand, Type, Val, Var, element_of

TABLE_WORDS = 64
COUNTER = 48  # word of the table that holds the claim counter: a cache line of its own
PIECES = 4  # that small tasks are cut into for each thread


class Emitter:
    """One native function under construction; `params` are its int64 arguments."""

    def __init__(self, name: str, params: int = 3) -> None:
        self.module = ir.Module(name=name)
        function = ir.Function(self.module, ir.FunctionType(VOID, [I64] * params), name)
        self.b: Any = ir.IRBuilder(function.append_basic_block("entry"))
        self.params = [Val(self, a) for a in function.args]
        if params == 3:
            self.table, self.thread, self.threads = self.params

    def done(self) -> str:
        """The finished module as LLVM's text."""
        self.b.ret_void()
        return str(self.module)

    # values

    def lift(self, x: Operand, t: Type = I64) -> Val:
        """A Python number as a constant of a type, the same in every lane; a value as it is."""
        if isinstance(x, Val):
            return x
        element = element_of(t)
        if element not in FLOATS:
            half = 1 << (element.width - 1)
            x = (int(x) + half) % (2 * half) - half if element.width > 1 else int(x)
        return Val(self, ir.Constant(t, [x] * t.count if isinstance(t, ir.VectorType) else x))

    def var(self, init: Operand, t: Type = I64) -> Var:
        return Var(self, self.lift(init, t))

    def arg(self, i: int) -> Val:
        """Word i of the table."""
        return self.load(self.table + i * 8, I64, 8)

    # memory

    def load(self, address: Val, t: Type, align: int = 1) -> Val:
        v = self.b.load(self.b.inttoptr(address.v, PTR), typ=t)
        v.align = align
        return Val(self, v)

    def store(self, address: Val, value: Val, align: int = 1) -> None:
        self.b.store(value.v, self.b.inttoptr(address.v, PTR)).align = align

    def pointer(self, address: Val) -> Val:
        return Val(self, self.b.inttoptr(address.v, PTR))

    def stack(self, nbytes: int) -> Val:
        """The address of scratch memory of this call: small, since threads' stacks are."""
        with self.b.goto_entry_block():
            p = self.b.alloca(ir.ArrayType(I8, nbytes))
            p.align = 64
            return Val(self, self.b.ptrtoint(p, I64))

    def call(self, name: str, result: Type, *args: Val, flags: Sequence[str] = ()) -> Val:
        """Call an intrinsic by its full name."""
        known = self.module.globals.get(name)
        function = known or ir.Function(self.module, ir.FunctionType(result, [a.type for a in args]), name)
        return Val(self, self.b.call(function, [a.v for a in args], fastmath=flags))

    def call_address(self, address: Val, *args: Operand) -> None:
        """Call void(int64...) at an address."""
        values = [self.lift(a).v for a in args]
        callee = _Callee(self.b.inttoptr(address.v, PTR), ir.FunctionType(VOID, [I64] * len(values)))
        self.b._insert(ir.instructions.CallInstr(self.b.block, callee, values))

    # atomics

    def atomic(self, op: str, address: Val, v: Operand) -> Val:
        """Read-modify-write an int64: its value before."""
        return Val(self, self.b.atomic_rmw(op, self.b.inttoptr(address.v, PTR), self.lift(v).v, "seq_cst"))

    def load_acquire(self, address: Val) -> Val:
        return Val(self, self.b.load_atomic(self.b.inttoptr(address.v, PTR), "acquire", 8, typ=I64))

    # control flow

    def range(self, start: Operand, stop: Operand | None = None, step: Operand = 1) -> Iterator[Val]:
        """`for i in k.range(n): ...`: the Python body runs once and becomes the loop's body."""
        lo, hi = (self.lift(0), self.lift(start)) if stop is None else (self.lift(start), self.lift(stop))
        i = self.var(lo)
        with self.loop(lambda: i.get() < hi):
            now = i.get()
            yield now
            i.set(now + step)

    @contextmanager
    def loop(self, condition: Callable[[], Val]) -> Iterator[None]:
        """`with k.loop(condition): ...`: while."""
        head, body, out = (self.b.append_basic_block() for _ in range(3))
        self.b.branch(head)
        self.b.position_at_end(head)
        self.b.cbranch(condition().v, body, out)
        self.b.position_at_end(body)
        yield
        self.b.branch(head)
        self.b.position_at_end(out)

    def when(self, condition: Val) -> AbstractContextManager[Any]:
        """`with k.when(condition): ...`: if."""
        context: AbstractContextManager[Any] = self.b.if_then(condition.v)
        return context

    def either(self, condition: Val) -> AbstractContextManager[Any]:
        """`with k.either(condition) as (yes, no): with yes: ...; with no: ...`: if and else."""
        context: AbstractContextManager[Any] = self.b.if_else(condition.v)
        return context

    def claims(self, n: Val, chunk: Operand) -> Iterator[tuple[Val, Val]]:
        """Parts [lo, hi) of n tasks, claimed from the table's counter, which the team sets back afterwards. Whoever comes late, or not
        at all, only leaves more to the others."""
        chunk, counter = self.lift(chunk), self.table + COUNTER * 8
        lo = self.var(self.atomic("add", counter, chunk))
        with self.loop(lambda: lo.get() < n):
            now = lo.get()
            yield now, self.min(now + chunk, n)
            lo.set(self.atomic("add", counter, chunk))

    def claim(self, n: Val, chunk: Operand = 1) -> Iterator[Val]:
        """Tasks, claimed in chunks."""
        for lo, hi in self.claims(n, chunk):
            yield from self.range(lo, hi)

    def shares(self, n: Val, unit: int = 1) -> Iterator[tuple[Val, Val]]:
        """Parts of n small tasks, in whole units: all at once for a thread alone, else a few for each."""
        pieces = self.select(self.threads > 1, self.threads * PIECES, self.lift(1)) * unit
        yield from self.claims(n, (n + pieces - 1) // pieces * unit)

    def share(self, n: Val) -> Iterator[Val]:
        """Small tasks, claimed in large chunks."""
        for lo, hi in self.shares(n):
            yield from self.range(lo, hi)

    # choosing

    def select(self, condition: Val, a: Val, b: Val) -> Val:
        return Val(self, self.b.select(condition.v, a.v, b.v))

    def min(self, a: Val, b: Operand) -> Val:
        """The smaller; of floats, b where either is not a number."""
        b = self.lift(b, a.type)
        return self.select(a < b, a, b)

    def max(self, a: Val, b: Operand) -> Val:
        """The larger; of floats, b where either is not a number."""
        b = self.lift(b, a.type)
        return self.select(a > b, a, b)

    def clamp(self, a: Val, lo: Operand, hi: Operand) -> Val:
        return self.min(self.max(a, lo), hi)


class _Callee:
    """llvmlite wants a function-like object to call through a bare address: an opaque pointer plus a function type."""

    def __init__(self, pointer: Any, function_type: Type) -> None:
        self.function_type, self._pointer, self.type = function_type, pointer, pointer.type

    def get_reference(self) -> str:
        reference: str = self._pointer.get_reference()
        return reference
