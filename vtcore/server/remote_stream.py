"""One request's answer, from the engine's process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from vtcore.outputs import Delta, Logprobs, Timings
from vtcore.server.wire import Ended


class RemoteStream:
    """An async iterator of deltas. What Ended tells is there once it has ended."""

    def __init__(self, request_id: str, prompt_token_ids: list[int], abort: Callable[[RemoteStream], None]) -> None:
        self.request_id, self.prompt_token_ids = request_id, prompt_token_ids
        self.prompt_logprobs: list[Logprobs | None] = []
        self.timings = Timings()
        self.num_cached_tokens: int | None = None
        self.accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._abort, self._ended = abort, False
        self._items: asyncio.Queue[Delta | Exception | None] = asyncio.Queue()

    def abort(self) -> None:
        """End the request and free what it holds. Nothing where it has ended."""
        self._abort(self)
        self.put(None)

    def accept(self) -> None:
        """It is queued."""
        if not self.accepted.done():
            self.accepted.set_result(None)

    def refuse(self, reason: Exception) -> None:
        """It was not."""
        if not self.accepted.done():
            self.accepted.set_exception(reason)

    def put(self, item: Delta | Exception | None) -> None:
        """A delta; or what ended it, or None, after which nothing comes."""
        self._items.put_nowait(item)

    def end(self, said: Ended) -> None:
        """It had its last delta."""
        self.prompt_logprobs, self.timings, self.num_cached_tokens = said.prompt_logprobs, said.timings, said.num_cached_tokens
        self.put(None)

    def __aiter__(self) -> RemoteStream:
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
