"""A step as a list of launches, replayed with other numbers in its inputs: no model, no guards, no look-ups.

It records ops and not models, so it serves every model whose forward depends on shapes alone, and every provider that records. What a
provider can't replay (a definition, a kernel of a plain file) is called again, between the replayed launches, with the same tensors; what
was copied between memories because of it is copied again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from weakref import ref

import numpy as np

from vtcore.dispatch import Dispatcher
from vtcore.memory import HOST, Memory
from vtcore.op import Call, Op
from vtcore.pool import Pool
from vtcore.provider import Launch, Provider
from vtcore.storage import Storage
from vtcore.tensor import Inputs, Tensor, bare

Changing = dict[tuple[int, int], tuple[Storage, Memory, str]]


class Capture:
    """`with Capture(dispatcher, inputs) as c: out = forward()` runs the forward and records it; `c.replay()` runs it again.

    Temporaries come from pools of the capture's own, one a memory: nobody else gets them, and every replay uses them in the same order.
    What the step doesn't make itself (weights, caches, inputs) it holds on to. Results lie where the recorded run left them, and are
    overwritten by the next replay."""

    def __init__(self, dispatcher: Dispatcher, inputs: Inputs | None = None) -> None:
        self.dispatcher, self.inputs = dispatcher, inputs
        self.pools = {m: m.apart() for m in {p.memory for p in dispatcher.providers} | {HOST}}
        self.parts: list[Callable[[], None]] = []
        self.held: dict[int, Storage] = {}  # those that the step reads or writes and doesn't make, or that cross between memories
        # caches and inputs, where launches see them, and the op of the first:
        self._changing: Changing = {}
        self._made: set[int] = set()  # of the held ones, what functions that are called again gave
        self._results: dict[int, tuple[ref[Storage], Memory]] = {}
        self._launches: list[tuple[Provider, Launch]] = []
        self._after: list[Callable[[], None]] = []  # what is due when these have run
        self.ran: Counter[tuple[str, str]] = Counter()
        self.declined: Counter[Any] = Counter()

    @property
    def nbytes(self) -> int:
        """What its temporaries take, without results that are still in use."""
        return sum(pool.nbytes for pool in self.pools.values())

    def __del__(self) -> None:
        for pool in self.pools.values():  # its temporaries go with it
            pool.close()

    def replay(self) -> None:
        """Run the step again. The caller has written its inputs."""
        for storage, memory, op in self._changing.values():
            if len(storage.copies) > 1 and not storage.valid[memory].all():
                self.dispatcher.op_name = op
                storage.at(memory, None, self.dispatcher.moved)
        for part in self.parts:
            part()
        for result, memory in self._results.values():
            storage_ = result()
            if storage_ is not None and len(storage_.copies) > 1:
                storage_.wrote(memory)
        self.dispatcher.ran.update(self.ran)
        self.dispatcher.declines.update(self.declined)

    def __enter__(self) -> Capture:
        self._stack = ExitStack()
        for memory, pool in self.pools.items():
            self._stack.enter_context(_scratch(memory, pool))
        for provider in self.dispatcher.providers:
            if provider.records:
                self._stack.enter_context(provider.record(partial(self._launched, provider)))
        self._ran, self._declined = self.dispatcher.ran.copy(), self.dispatcher.declines.copy()
        self.dispatcher.recorder = self
        return self

    def __exit__(self, *_: object) -> None:
        self.dispatcher.recorder = None
        self._stack.close()
        self._seal()
        self._results = {key: r for key, r in self._results.items() if r[0]() is not None}
        self.ran, self.declined = self.dispatcher.ran - self._ran, self.dispatcher.declines - self._declined

    # What the dispatcher says while the step is recorded:

    def moved(self, storage: Storage, source: Memory, target: Memory) -> None:
        """A copy between memories. What the step made moves anew at each replay; weights moved for good, and caches go by `brought`."""
        if self._own(storage):
            self.held[id(storage)] = storage
            self._part(partial(_move, self.dispatcher, self.dispatcher.op_name, storage, source, target))

    def brought(self, op: Op, call: Call, memory: Memory) -> None:
        """The rows of caches that an op of a provider which records is about to touch are true where it runs."""
        cached = {n: t for n in op.touches if isinstance(t := call[n], Tensor)}
        if any(len(t.storage.copies) > 1 for t in cached.values()):
            needed = _needed(op, call)
            self._part(partial(_bring, self.dispatcher, op, needed, cached, memory))

    def wrote(self, op: Op, call: Call, memory: Memory) -> None:
        """An op of a provider that records has written to caches: their rows are false elsewhere, after each replay too."""
        needed = _needed(op, call)
        written = [n for n in op.writes if isinstance(call[n], Tensor)]
        if written and len(self.pools) > 1:
            self._after.append(partial(_settle, self.dispatcher, op, needed, written, memory))

    def called(self, op: Op, function: Callable[..., Any], call: Call, out: Any, memory: Memory) -> None:
        """An op was run by something that doesn't record its launches."""
        self._made.update(id(t.storage) for t in _tensors([out]))
        self.held.update((id(t.storage), t.storage) for t in _tensors([*call.values(), out]))
        self._part(partial(_again, self.dispatcher, self._changing, op, function, call, out, memory))

    def _launched(self, provider: Provider, launch: Launch, storages: Sequence[Storage]) -> None:
        self._launches.append((provider, launch))
        for storage in storages:
            if self._own(storage):
                self._results[id(storage)] = ref(storage), provider.memory
            else:
                self.held[id(storage)] = storage
                if storage.rows > 1 or (self.inputs is not None and storage is self.inputs.whole.storage):
                    self._changing.setdefault((id(storage), id(provider.memory)), (storage, provider.memory, self.dispatcher.op_name))

    def _own(self, storage: Storage) -> bool:
        """Whether the step itself made it."""
        return id(storage) in self._made or any(h.pool is self.pools.get(m) for m, h in storage.copies.items())

    def _part(self, part: Callable[[], None]) -> None:
        self._seal()
        self.parts.append(part)

    def _seal(self) -> None:
        """Turn the launches so far into as few parts as there are changes of provider."""
        while self._launches:
            provider = self._launches[0][0]
            n = next((i for i, (p, _) in enumerate(self._launches) if p is not provider), len(self._launches))
            self.parts.append(provider.seal([launch for _, launch in self._launches[:n]]))
            del self._launches[:n]
        self.parts += self._after
        self._after = []


# What happens at a replay. Nothing here refers to the capture, so that it goes, with its temporaries, as soon as nobody has it any more.


def _move(dispatcher: Dispatcher, op: str, storage: Storage, source: Memory, target: Memory) -> None:
    dispatcher.op_name = op
    storage.wrote(source)
    storage.at(target, None, dispatcher.moved)


def _bring(dispatcher: Dispatcher, op: Op, call: Call, cached: dict[str, Tensor], memory: Memory) -> None:
    dispatcher.op_name = op.name
    for name, tensor in cached.items():
        if len(tensor.storage.copies) > 1:
            tensor.storage.at(memory, dispatcher.rows(op, name, call), dispatcher.moved)
            if memory is HOST and name in op.writes:
                tensor.storage.ask()


def _settle(dispatcher: Dispatcher, op: Op, call: Call, written: list[str], memory: Memory) -> None:
    for name in written:
        if len(call[name].storage.copies) > 1:
            call[name].storage.wrote(memory, dispatcher.rows(op, name, call) if name in op.touches else None)


def _again(dispatcher: Dispatcher, changing: Changing, op: Op, function: Callable[..., Any], call: Call, out: Any, memory: Memory) -> None:
    dispatcher.op_name = op.name
    touched = dispatcher.bring(op, call, memory)
    _keep(out, function(**call), memory)
    dispatcher.settle(op, call, touched, memory)
    for tensor in _tensors([out]):
        tensor.storage.wrote(memory)
    for name in op.writes:
        for storage, elsewhere, _ in changing.values():
            if elsewhere is not memory and call[name] is not None and storage is call[name].storage:
                storage.at(elsewhere, touched.get(name), dispatcher.moved)


def _needed(op: Op, call: Call) -> Call:
    """What tells an op's rows: its caches and integers. Of anything else a shape would do, and it may be a temporary: left out."""
    kept = {*op.touches, *op.writes}
    return {n: v if n in kept or not isinstance(v, Tensor) or v.dtype == np.int32 else None for n, v in call.items()}


@contextmanager
def _scratch(memory: Memory, pool: Pool) -> Iterator[None]:
    before, memory.scratch = memory.scratch, pool
    try:
        yield
    finally:
        memory.scratch = before


def _tensors(values: Sequence[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _keep(out: Any, result: Any, memory: Memory) -> None:
    """Put new results where the recorded ones are."""
    if isinstance(out, tuple):
        for o, r in zip(out, result, strict=True):
            _keep(o, r, memory)
    elif isinstance(out, Tensor) and memory is HOST:
        out.storage.ask()  # launches of the replay before may still read it
        bare(out)[...] = bare(result)
    elif isinstance(out, Tensor):
        host = np.empty(out.storage.nbytes, np.uint8)
        memory.download(result.storage.copies[memory], 0, host)
        memory.upload(out.storage.copies[memory], 0, host)
