"""The engine's process, from its start to its end."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtcore.errors import VtcoreError

if TYPE_CHECKING:
    import zmq.asyncio

STOP_SECONDS, HANG_SECONDS = 5.0, 300
MISUSED = 2  # the status of a process to which an option was wrong


class NotStartedError(VtcoreError):
    """The first process ended before it was ready. From 0 on its `status` is an exit status, and it has said why; below, a signal's."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the engine's process ended before it was ready, by signal {-status}")
        self.status = status


class EngineProcess:
    """`start` begins loading at once; the server's own imports run meanwhile. One that hangs for so many seconds is to be killed."""

    def __init__(self, model: str, options: Mapping[str, Any], hang_seconds: float = HANG_SECONDS) -> None:
        self.hang_seconds = hang_seconds
        self._directory = tempfile.TemporaryDirectory(prefix="vtcore-")
        self.model, self.options = model, json.dumps(options)
        self._starts = 0
        self.start()

    @cached_property
    def context(self) -> zmq.asyncio.Context:
        """Of the server's sockets; imported when the first process has been started."""
        import zmq.asyncio

        return zmq.asyncio.Context()

    @property
    def endpoint(self) -> str:
        """Where the present process connects to: a socket in a directory that only this user may enter."""
        return f"ipc://{Path(self._directory.name) / str(self._starts)}"

    @property
    def pid(self) -> int:
        """Of the present process."""
        return self._process.pid

    def start(self) -> None:
        """A new process, at an endpoint of its own."""
        self._starts += 1
        command = [sys.executable, "-m", "vtcore.server", self.endpoint, self.model, self.options, str(os.getpid())]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0)  # a terminal's Ctrl-C is the server's alone

    async def ended(self) -> int:
        """Wait for the present process to end: its status."""
        import asyncio

        return await asyncio.to_thread(self._process.wait)

    def kill(self) -> None:
        """End the present process, whatever it does."""
        self._process.kill()

    def stop(self, patience: float = STOP_SECONDS) -> None:
        """Wait so many seconds for it to end by itself; then end it. A second time changes nothing."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(patience)
        self._process.kill()
        self._process.wait()
        if "context" in self.__dict__:
            self.context.destroy(linger=0)
        self._directory.cleanup()
