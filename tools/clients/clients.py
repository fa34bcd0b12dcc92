"""The clients by name."""

from __future__ import annotations

from collections.abc import Callable

from clients import curl, langchain, sdk
from clients.call import Call, Outcome, Server

CLIENTS: dict[str, Callable[[Call, Server], Outcome]] = {
    "openai": sdk.ask,
    "openai-async": sdk.ask_async,
    "curl": curl.ask,
    "langchain": langchain.ask,
}


def ask(call: Call, server: Server) -> Outcome:
    """Make a recorded call by its client."""
    return CLIENTS[call.client](call, server)
