"""One request's answer, from the engine's process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from vtcore.delta_queue import DeltaQueue
from vtcore.outputs import Logprobs, Timings
from vtcore.server.wire import Ended


class RemoteStream(DeltaQueue):
    """An async iterator of deltas. What Ended tells is there once it has ended."""

    def __init__(self, request_id: str, prompt_token_ids: list[int], abort: Callable[[RemoteStream], None]) -> None:
        super().__init__()
        self.request_id, self.prompt_token_ids = request_id, prompt_token_ids
        self.prompt_logprobs: list[Logprobs | None] = []
        self.timings = Timings()
        self.num_cached_tokens: int | None = None
        self.accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._abort = abort

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

    def end(self, said: Ended) -> None:
        """It had its last delta."""
        self.prompt_logprobs, self.timings, self.num_cached_tokens = said.prompt_logprobs, said.timings, said.num_cached_tokens
        self.put(None)
