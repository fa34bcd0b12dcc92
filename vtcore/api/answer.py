"""What the answers of both kinds have in common: a name, a time, and streams that are read together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from vtcore.api.gathered import Gathered
from vtcore.api.logprobs import Named
from vtcore.api.sampling import Sampling
from vtcore.api.source import Source
from vtcore.outputs import Delta


@dataclass
class Answer:
    """An answer to be had whole or in frames: to one request, which may have had several prompts."""

    request: Sampling
    answer_id: str
    model: str
    sources: Sequence[Source]  # one a prompt
    named: Named
    created: int = field(default_factory=lambda: int(time.time()))
    gathered: list[Gathered] = field(init=False)  # the same, as far as they were read

    def __post_init__(self) -> None:
        self.gathered = [Gathered(self.sequences) for _ in self.sources]

    @property
    def sequences(self) -> int:
        """For each prompt."""
        return self.request.n or 1

    def head(self, kind: str) -> dict[str, Any]:
        """The keys that every object begins with."""
        return {"id": self.answer_id, "object": kind, "created": self.created, "model": self.model}

    def usage(self) -> dict[str, Any]:
        """So far; with the tokens that were found in the cache, as soon as these are known."""
        prompt = sum(len(s.prompt_token_ids) for s in self.sources)
        completion = sum(g.tokens for g in self.gathered)
        told: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
        cached = [s.num_cached_tokens for s in self.sources if s.num_cached_tokens is not None]
        return told | {"prompt_tokens_details": {"cached_tokens": sum(cached)}} if len(cached) == len(self.sources) else told

    def frame(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        """One frame of a stream, with the usage where every frame is to have it."""
        told = {"usage": self.usage()} if self.request.usage_in_frames else {}
        return {**self.head(kind), "choices": choices, **told}

    def last_frame(self, kind: str) -> dict[str, Any]:
        """The frame after all choices, which tells the usage."""
        return {**self.head(kind), "choices": [], "usage": self.usage()}

    async def deltas(self) -> AsyncIterator[tuple[int, Delta]]:
        """Of all prompts as they come, each with its prompt's number. What ends one by a fault ends all."""
        async for number, delta in merged(self.sources):
            self.gathered[number].add(delta)
            yield number, delta

    async def finished(self) -> None:
        """Read to the end."""
        async for _ in self.deltas():
            pass

    def abort(self) -> None:
        """End what is still running: the client has gone."""
        for source in self.sources:
            source.abort()


async def merged(sources: Sequence[Source]) -> AsyncIterator[tuple[int, Delta]]:
    """The deltas of all sources as they come, each with its source's number."""
    if len(sources) == 1:
        async for delta in sources[0]:
            yield 0, delta
        return
    pending = {_next(source): i for i, source in enumerate(sources)}
    try:
        while pending:
            done, _ = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                number = pending.pop(task)
                if (added := task.result()) is not None:
                    yield number, added
                    pending[_next(sources[number])] = number
    finally:
        for task in pending:
            task.cancel()


def _next(source: Source) -> asyncio.Future[Delta | None]:
    return asyncio.ensure_future(anext(source, None))
