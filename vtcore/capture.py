"""A step as a list of launches, replayed with other numbers in its inputs: no model, no guards, no look-ups.

It records ops and not models, so it serves every model whose forward depends on shapes alone. What a provider can't replay (a
definition, a kernel of a plain file) is called again, between the replayed launches, with the same tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from vtcore.dispatch import Dispatcher
from vtcore.memory import HOST, Memory, Storage
from vtcore.op import Call, Op
from vtcore.provider import Launch, Provider
from vtcore.tensor import Tensor, bare


class Capture:
    """`with Capture(dispatcher) as c: out = forward()` runs the forward and records it; `c.replay()` runs it again.

    Temporaries come from a pool of the capture's own: nobody else gets them, and every replay uses them in the same order. What
    the step doesn't make itself (weights, caches, inputs) it holds on to. Results lie where the recorded run left them, and are
    overwritten by the next replay."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher
        self.pool: dict[int, list[Any]] = {}
        self.parts: list[Callable[[], None]] = []
        self.held: dict[int, Any] = {}  # storages that the step reads or writes and doesn't own
        self._launches: list[tuple[Provider, Launch]] = []
        self.ran: Counter[tuple[str, str]] = Counter()
        self.declined: Counter[Any] = Counter()

    @property
    def nbytes(self) -> int:
        """What its temporaries take, without results that are still in use."""
        return sum(size * len(buffers) for size, buffers in self.pool.items())

    def replay(self) -> None:
        """Run the step again. The caller has written its inputs."""
        for part in self.parts:
            part()
        self.dispatcher.ran.update(self.ran)
        self.dispatcher.declines.update(self.declined)

    def __enter__(self) -> Capture:
        self._stack = ExitStack()
        for memory in {p.memory for p in self.dispatcher.providers} | {HOST}:
            self._stack.enter_context(_scratch(memory, self.pool))
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
        self.ran, self.declined = self.dispatcher.ran - self._ran, self.dispatcher.declines - self._declined

    def called(self, op: Op, function: Callable[..., Any], call: Call, out: Any) -> None:
        """An op was run by something that doesn't record its launches."""
        self._seal()
        self.held.update((id(t.storage), t.storage) for t in _tensors([*call.values(), out]))
        self.parts.append(lambda: _keep(out, function(**call)))

    def _launched(self, provider: Provider, launch: Launch, storages: Sequence[Storage]) -> None:
        self._launches.append((provider, launch))
        for storage in storages:
            if all(h.pool is not self.pool for h in storage.copies.values()):
                self.held[id(storage)] = storage

    def _seal(self) -> None:
        """Turn the launches so far into as few parts as there are changes of provider."""
        while self._launches:
            provider = self._launches[0][0]
            n = next((i for i, (p, _) in enumerate(self._launches) if p is not provider), len(self._launches))
            self.parts.append(provider.seal([launch for _, launch in self._launches[:n]]))
            del self._launches[:n]


@contextmanager
def _scratch(memory: Memory, pool: dict[int, list[Any]]) -> Iterator[None]:
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


def _keep(out: Any, result: Any) -> None:
    """Put new results where the recorded ones are."""
    if isinstance(out, tuple):
        for o, r in zip(out, result, strict=True):
            _keep(o, r)
    elif isinstance(out, Tensor):
        bare(out)[...] = bare(result)
