"""A request's body as it comes: so many bytes at most, and in so much time."""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

from vtcore.api.errors import ApiError

BYTES_PER_SECOND = 64 << 10  # a body that comes faster than this may be as large as the limit allows


def too_large(limit: int) -> ApiError:
    """For a body over the limit."""
    return ApiError(413, f"the body has more than {limit} bytes")


class Incoming:
    """Stands for `receive`. Raises HTTPException, which FastAPI lets through while it reads a body: 413 and 408."""

    def __init__(self, receive: Receive, limit: int, seconds: float) -> None:
        self.receive, self.limit, self.seconds = receive, limit, seconds
        self.got, self.whole = 0, False
        self._asked: float | None = None  # when it was wanted first

    async def __call__(self) -> Message:
        """The next piece; once all have come, that the client has gone, which may take any time."""
        message = await self.receive() if self.whole else await self._piece()
        self.got += len(message.get("body", b""))
        self.whole = not message.get("more_body", False)
        if self.got > self.limit:
            raise HTTPException(413, too_large(self.limit).message)
        return message

    async def _piece(self) -> Message:
        now = asyncio.get_running_loop().time()
        self._asked = now if self._asked is None else self._asked
        try:
            async with asyncio.timeout_at(self._asked + self.seconds + self.got / BYTES_PER_SECOND):
                return await self.receive()
        except TimeoutError:
            raise HTTPException(408, f"the body has not come whole in {self.seconds:g} seconds; {self.got} bytes came") from None
