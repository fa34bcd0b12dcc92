"""Which provider runs an op: the first of the chain that accepts. Moves arguments to where it runs, and says what that cost."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from contextvars import Token
from typing import Any, Protocol

import numpy as np

from vtcore.errors import DeclinedError, KernelBuildError, ProviderError, VtcoreError
from vtcore.memory import HOST, Memory
from vtcore.op import RUNNER, Call, Op
from vtcore.provider import Attempt, Decline, Function, Provider, definition
from vtcore.report import Report
from vtcore.storage import Storage
from vtcore.tensor import Tensor

Array = np.ndarray[Any, Any]
REFERENCE = "reference"


class Recorder(Protocol):
    """What wants to know of everything that isn't a launch of a provider which records."""

    def called(self, op: Op, function: Function, call: Call, out: Any, memory: Memory) -> None:
        """`function(**call)` gave `out`, in a memory."""

    def brought(self, op: Op, call: Call, memory: Memory) -> None:
        """The arguments of an op that a provider is about to record are true in its memory."""

    def wrote(self, op: Op, call: Call, memory: Memory) -> None:
        """Such an op has written to caches."""

    def moved(self, storage: Storage, source: Memory, target: Memory) -> None:
        """Bytes were copied for an op."""


class Dispatcher:
    """A chain of providers. Behind the last one stands the op's own definition, on the host; it never declines.

    `strict` makes the first decline an error. Used as a context manager: inside it every op goes through the chain."""

    def __init__(self, providers: Sequence[Provider] = (), *, strict: bool = False) -> None:
        self.providers, self.strict = tuple(providers), strict
        self.ran: Counter[tuple[str, str]] = Counter()
        self.declines: Counter[Decline] = Counter()
        self.copies: Counter[tuple[str, str]] = Counter()
        self.bytes: Counter[tuple[str, str]] = Counter()
        self.seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
        self.recorder: Recorder | None = None
        self.op_name = ""  # of the op that runs: copies are counted under it
        self._tokens: list[Token[Any]] = []

    def run(self, op: Op, call: Call) -> Any:
        """Run one op on the first provider that accepts it."""
        self.op_name = op.name
        for provider in self.providers:
            chosen = provider.accept(op, call)
            if isinstance(chosen, Decline):
                self._passed_on(chosen)
                continue
            try:
                out = self._recorded(provider, op, chosen, call) if provider.records else self._called(provider, op, chosen, call)
            except KernelBuildError as wrong:
                self._passed_on(Decline(provider.name, op.name, str(wrong)))
                continue
            self.ran[op.name, provider.name] += 1
            if isinstance(chosen, Attempt) and chosen.passed is not None:
                self.declined(chosen.passed)
            return out
        self.ran[op.name, REFERENCE] += 1
        return self._called(None, op, definition(op), call)

    def _recorded(self, provider: Provider, op: Op, function: Function, call: Call) -> Any:
        """Run a kernel of a provider that tells of its launches by itself."""
        touched = self.bring(op, provider.brings(op, call), provider.memory)
        if self.recorder is not None and op.touches:
            self.recorder.brought(op, call, provider.memory)
        out = function(**call)
        if op.writes:
            self.settle(op, call, touched, provider.memory)
            if self.recorder is not None:
                self.recorder.wrote(op, call, provider.memory)
        return out

    def _called(self, provider: Provider | None, op: Op, function: Function, call: Call) -> Any:
        """Run a function that nobody records: a definition, or a kernel that is written in Python."""
        memory = HOST if provider is None else provider.memory
        touched = self.bring(op, call, memory)
        out = function(**call) if provider is None else self.call(provider, op, function, call)
        self.settle(op, call, touched, memory)
        if self.recorder is not None:
            self.recorder.called(op, function, call, out, memory)
        return out

    def call(self, provider: Provider, op: Op, function: Function, call: Call) -> Any:
        """Run a kernel that is written in Python, and hold what it returns against the op's signature: a wrong shape would go on as wrong
        numbers. What records is native code, and checked by conformance only.

        Raises ProviderError for such a result, and for what a kernel raises that is no VtcoreError."""
        wanted = op.signature.shapes(op.validate(call))
        try:
            out = function(**call)
        except (VtcoreError, MemoryError):
            raise
        except Exception as error:
            raise ProviderError(f"provider {provider.name!r}: its kernel of {op.name} failed: {type(error).__name__}: {error}") from error
        given = out if isinstance(out, tuple) else () if out is None else (out,)
        if [(r.shape, r.dtype) if isinstance(r, Tensor) else None for r in given] != wanted:
            made, right = ", ".join(map(_shown, given)) or "nothing", ", ".join(_described(*w) for w in wanted) or "nothing"
            raise ProviderError(f"provider {provider.name!r}: its kernel of {op.name} gave {made}; Tensors are needed: {right}")
        return out

    def declined(self, decline: Decline) -> None:
        """Count one decline."""
        self.declines[decline] += 1

    def _passed_on(self, decline: Decline) -> None:
        """The next provider is asked. Raises DeclinedError under strict."""
        self.declined(decline)
        if self.strict:
            raise DeclinedError(
                f"strict: provider {decline.provider!r} declined {decline.op}: {decline.reason}; "
                "without strict it falls back to the next provider, and the report counts it"
            )

    def bring(self, op: Op, call: Call, memory: Memory) -> dict[str, Array | None]:
        """Make every argument true in a memory: of one that the op touches by rows, those rows."""
        touched: dict[str, Array | None] = {}
        for name, value in call.items():
            if isinstance(value, Tensor):
                storage = value.storage
                if name in op.touches and storage.copies.keys() - {memory}:
                    touched[name] = self.rows(op, name, call)
                    storage.at(memory, touched[name], self.moved)
                else:
                    storage.at(memory, None, self.moved)
                if memory is HOST and name in op.writes:
                    storage.ask()
            elif isinstance(value, (list, tuple)):
                for v in value:
                    if isinstance(v, Tensor):
                        v.storage.at(memory, None, self.moved)
        return touched

    def settle(self, op: Op, call: Call, touched: dict[str, Array | None], memory: Memory) -> None:
        """What was written is true only where it was written. (With one copy nobody asked for rows: it stays true as a whole.)"""
        for name in op.writes:
            if call[name] is not None:
                call[name].storage.wrote(memory, touched.get(name))

    def rows(self, op: Op, name: str, call: Call) -> Array | None:
        """The rows of a cache that a call of an op touches; None where the host can't tell: all."""
        return op.touches[name](**{n: _index(v) for n, v in call.items()})

    def moved(self, storage: Storage, source: Memory, target: Memory, nbytes: int, seconds: float) -> None:
        """Count one copy between memories, under the op that needed it."""
        way = self.op_name, f"{source.name}->{target.name}"
        self.copies[way] += 1
        self.bytes[way] += nbytes
        self.seconds[way] += seconds
        if self.recorder is not None:
            self.recorder.moved(storage, source, target)

    @property
    def calls(self) -> int:
        """Ops that have run so far. Any thread may ask, at any time."""
        return sum(list(self.ran.values()))

    def report(self) -> Report:
        """What ran where so far, every decline with its reason, and every copy."""
        return Report.of(self.ran, self.declines, self.copies, self.bytes, self.seconds)

    def __enter__(self) -> Dispatcher:
        self._tokens.append(RUNNER.set(self.run))
        return self

    def __exit__(self, *_: object) -> None:
        RUNNER.reset(self._tokens.pop())


def _shown(value: Any) -> str:
    return _described(value.shape, value.dtype) if isinstance(value, Tensor) else type(value).__name__


def _described(shape: tuple[int, ...], dtype: Any) -> str:
    return f"{dtype}[{' '.join(map(str, shape))}]"


def _index(value: Any) -> Any:
    """Values of small integer arrays that the host knows; everything else as it is, for its shape."""
    known = isinstance(value, Tensor) and getattr(value.dtype, "kind", "") == "i" and HOST in value.storage.valid
    return value.bare() if known and value.storage.valid[HOST].all() else value
