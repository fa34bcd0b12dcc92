"""Deltas on their way to the one coroutine that reads them."""

from __future__ import annotations

import asyncio
from typing import Self

from vtcore.outputs import Delta

Item = Delta | BaseException | None  # None: there is no more


class DeltaQueue:
    """An async iterator. What is put after its end is never read."""

    def __init__(self) -> None:
        self.ended = False  # as far as it was read
        self.fault: BaseException | None = None  # what it ended with, for whoever comes later
        self._items: asyncio.Queue[Item] = asyncio.Queue()

    def put(self, *items: Item) -> None:
        """Deltas; or what ended them, or None, after which nothing comes. Called in the reader's own event loop."""
        for item in items:
            self._items.put_nowait(item)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delta:
        if self.ended:
            raise StopAsyncIteration
        item = await self._items.get()
        if isinstance(item, Delta):
            return item
        self.ended, self.fault = True, item
        self._items.put_nowait(None)  # for another reader that waits already
        if item is None:
            raise StopAsyncIteration
        raise item
