"""One request's answer, as it comes, in the event loop that asked for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from vtcore.delta_queue import DeltaQueue
from vtcore.errors import VtcoreError
from vtcore.outputs import Delta, Logprobs, RequestOutput
from vtcore.request import Submission


class Stream(DeltaQueue):
    """An async iterator of deltas. As a context manager it aborts what is still running when the block is left.

    Only the event loop that it was made in may read it."""

    def __init__(self, submission: Submission, abort: Callable[[Stream], None]) -> None:
        super().__init__()
        self.submission, self.loop, self._abort = submission, asyncio.get_running_loop(), abort

    @property
    def request_id(self) -> str:
        """The request's name in the engine."""
        return self.submission.request_id

    @property
    def prompt_token_ids(self) -> list[int]:
        """What was asked."""
        return self.submission.prompt_token_ids

    @property
    def prompt_logprobs(self) -> list[Logprobs | None]:
        """Scores of the prompt, complete once the stream has ended; of use only if they were asked for."""
        return self.submission.prompt_logprobs

    @property
    def num_cached_tokens(self) -> int | None:
        """Of the prompt, found in the cache; None: it has not begun."""
        return self.submission.requests[0].num_cached_tokens

    def abort(self) -> None:
        """End the request and free what it holds, after the step that is being computed; the stream ends at once. Nothing where it has."""
        if not self.ended:
            self._abort(self)
            self.put(None)

    async def output(self) -> RequestOutput:
        """Read the rest, and give the whole. Raises what ended the request, if that was a fault, each time."""
        async for _ in self:
            pass
        if self.fault is not None:
            raise self.fault
        return self.submission.output()

    async def __anext__(self) -> Delta:
        if asyncio.get_running_loop() is not self.loop:
            raise VtcoreError(f"the stream of request {self.request_id!r} is read in another event loop than the one it was made in")
        return await super().__anext__()

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.abort()
