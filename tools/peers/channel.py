"""The caller's end of the pipe: a process that is started once and asked many times."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

TOOLS = Path(__file__).parents[1]
START, ANSWER = 600.0, 600.0  # seconds at most: to load a model, and to answer
SAID = 1500  # characters of stderr that an error shows


class PeerError(Exception):
    """A peer failed, and what it said."""


class NotInstalledError(PeerError):
    """A peer that isn't there: which module is missing, under which Python."""


@dataclass(frozen=True)
class Start:
    """How an engine's process is started."""

    engine: str  # a file of this folder: vtcore, llama, ...
    python: str
    model: str
    threads: int
    numerics: str = "exact"

    def command(self, *extra: str) -> list[str]:
        """The words."""
        words = [self.python, "-m", "peers.serving", self.engine, self.model, "--threads", str(self.threads)]
        return [*words, *(("--numerics", self.numerics) if self.engine == "vtcore" else ()), *extra]

    def environment(self) -> dict[str, str]:
        """Threads of libraries that read it from there, and where `peers` and vtcore are."""
        path = os.pathsep.join(p for p in (str(TOOLS), str(TOOLS.parent), os.environ.get("PYTHONPATH", "")) if p)
        return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": str(self.threads), "HF_HUB_OFFLINE": "1"}


class Worker:
    """A running engine. Raises NotInstalledError or PeerError where it doesn't come up."""

    def __init__(self, start: Start, seconds: float = START) -> None:
        self.start, self._errors = start, tempfile.TemporaryFile()  # noqa: SIM115  (open as long as the worker)
        try:
            self._process = subprocess.Popen(
                start.command(), env=start.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True
            )
        except OSError as wrong:
            raise NotInstalledError(f"{start.python} can't be started: {wrong.strerror}") from wrong
        self._answers: Queue[str] = Queue()
        Thread(target=self._listen, daemon=True).start()
        try:
            greeting = self._answer(seconds)
        except PeerError:
            self.close()
            raise
        self.about: str = greeting["about"]
        self.variants: list[str] = greeting["variants"]

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        """One question, one answer. Raises PeerError with what went wrong."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **request}) + "\n")
            self._process.stdin.flush()
        except OSError as wrong:
            raise self._failed("ended") from wrong
        return self._answer(ANSWER)

    def cpu_seconds(self) -> float:
        """What all its threads have used so far; 0 where the system doesn't say."""
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """End it."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def _answer(self, seconds: float) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=seconds)
        except Empty:
            self._process.kill()  # else a late answer would be taken for that of the next question
            raise self._failed(f"gave no answer for {seconds:g} s") from None
        if not line:
            raise self._failed("ended")
        answer: dict[str, Any] = json.loads(line)
        if "missing" in answer:
            raise NotInstalledError(f"{answer['missing']} (under {self.start.python})")
        if "error" in answer:
            raise PeerError(f"{self.start.engine}: {answer['error']}")
        return answer

    def _failed(self, what: str) -> PeerError:
        self._errors.seek(0)
        said = self._errors.read()[-SAID:].decode(errors="replace").strip()
        return PeerError(f"{self.start.engine} {what}: {said or 'it said nothing'}")
