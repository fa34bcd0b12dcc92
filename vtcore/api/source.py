"""Where an answer comes from: an engine in this process or in another one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

from vtcore.outputs import Delta, Logprobs
from vtcore.sampling_params import SamplingParams


class Source(Protocol):
    """One request's deltas, as vtcore.stream.Stream gives them."""

    @property
    def request_id(self) -> str:
        """Its name in the engine."""
        ...

    @property
    def prompt_token_ids(self) -> list[int]:
        """What was asked."""
        ...

    @property
    def prompt_logprobs(self) -> list[Logprobs | None]:
        """Scores of the prompt, complete once the source has ended; only if they were asked for."""
        ...

    @property
    def num_cached_tokens(self) -> int | None:
        """Of the prompt, found in the cache; None: that isn't known yet."""
        ...

    def abort(self) -> None:
        """End it, and free what it holds."""
        ...

    def __aiter__(self) -> AsyncIterator[Delta]: ...

    async def __anext__(self) -> Delta: ...


class Client(Protocol):
    """An engine, as vtcore.async_engine.AsyncEngine is one."""

    @property
    def max_model_len(self) -> int:
        """Tokens that a prompt and its answer may have together."""
        ...

    async def submit(self, prompt: Sequence[int], sampling_params: SamplingParams, **options: Any) -> Source:
        """Check a request and queue it. Raises ArgumentError for one that can't be run."""
        ...
