"""What the answers of both kinds have in common: a name, a time, and streams that are read together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from vtcore.api.logprobs import Named
from vtcore.api.sampling import Sampling
from vtcore.api.usage import usage
from vtcore.outputs import Delta
from vtcore.stream import Stream


@dataclass
class Answer:
    """An answer to be had whole or in frames: to one request, which may have had several prompts."""

    request: Sampling
    answer_id: str
    model: str
    streams: Sequence[Stream]
    named: Named
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def sequences(self) -> int:
        """For each prompt."""
        return self.request.n or 1

    def head(self, kind: str) -> dict[str, Any]:
        """The keys that every object begins with."""
        return {"id": self.answer_id, "object": kind, "created": self.created, "model": self.model}

    def usage(self) -> dict[str, int]:
        """So far."""
        return usage([s.submission for s in self.streams])

    def frame(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        """One frame of a stream, with the usage where every frame is to have it."""
        told = {"usage": self.usage()} if self.request.usage_in_frames else {}
        return {**self.head(kind), "choices": choices, **told}

    def last_frame(self, kind: str) -> dict[str, Any]:
        """The frame after all choices, which tells the usage."""
        return {**self.head(kind), "choices": [], "usage": self.usage()}

    async def deltas(self) -> AsyncIterator[tuple[int, Delta]]:
        """Of all streams as they come, each with its prompt's number. What ends one by a fault ends all."""
        if len(self.streams) == 1:
            async for delta in self.streams[0]:
                yield 0, delta
            return
        pending = {asyncio.ensure_future(anext(s, None)): i for i, s in enumerate(self.streams)}
        try:
            while pending:
                done, _ = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    number = pending.pop(task)
                    if (added := task.result()) is not None:
                        yield number, added
                        pending[asyncio.ensure_future(anext(self.streams[number], None))] = number
        finally:
            for task in pending:
                task.cancel()

    async def finished(self) -> None:
        """Read to the end."""
        async for _ in self.deltas():
            pass

    def abort(self) -> None:
        """End what is still running: the client has gone."""
        for stream in self.streams:
            stream.abort()
