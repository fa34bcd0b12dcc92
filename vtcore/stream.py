"""One request's answer, as it comes, in the event loop that asked for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from vtcore.outputs import Delta, Logprobs, RequestOutput
from vtcore.request import Submission

Item = Delta | BaseException | None  # None: there is no more


class Stream:
    """An async iterator of deltas. As a context manager it aborts what is still running when the block is left.

    Only the event loop that it was made in may read it."""

    def __init__(self, submission: Submission, abort: Callable[[Stream], None]) -> None:
        self.submission, self.loop = submission, asyncio.get_running_loop()
        self._abort, self._ended = abort, False
        self._items: asyncio.Queue[Item] = asyncio.Queue()

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
        if not self._ended:
            self._abort(self)
            self.put((None,))

    async def output(self) -> RequestOutput:
        """Read the rest, and give the whole. Raises what ended the request, if that was a fault."""
        async for _ in self:
            pass
        return self.submission.output()

    def put(self, items: Iterable[Item]) -> None:
        """Called in the stream's own loop."""
        for item in items:
            self._items.put_nowait(item)

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Delta:
        if self._ended:
            raise StopAsyncIteration
        item = await self._items.get()
        if isinstance(item, Delta):
            return item
        self._ended = True
        if item is None:
            raise StopAsyncIteration
        raise item

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.abort()
