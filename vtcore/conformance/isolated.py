"""A provider in a process of its own: a kernel that hangs or crashes ends that process, and the check goes on in a fresh one."""

from __future__ import annotations

import contextlib
import pickle
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

from vtcore import errors
from vtcore.conformance.case import Case
from vtcore.conformance.saved import pack, unpack
from vtcore.conformance.verdict import Verdict
from vtcore.errors import ProviderError

SECONDS = 60.0  # for one case, and for loading the provider: a compiler may run in it
PATIENCE = 3  # cases of one op that may end a process; the op's others are not run any more
FRAME = re.compile(r'File "([^"]+)", line (\d+) in (\w+)')
LINES = 200  # of a child's error output that are looked at
LAST_WORDS, PAUSE = 5.0, 0.3  # seconds: at most so long a child's last words are waited for; after so long a silence no more come
WHERE = getattr(signal, "SIGUSR1", None)  # asks the child where it is; there is none on Windows


class Ended(Exception):
    """The child is no more: the kind of verdict, and words."""

    def __init__(self, kind: str, words: str) -> None:
        super().__init__(words)
        self.kind = kind


class Child:
    """One process with the provider loaded. What it writes on its error output goes on to ours."""

    def __init__(self, provider: str) -> None:
        self.provider = Path(provider).name
        command = [sys.executable, "-m", "vtcore.conformance.child", provider]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._said: deque[str] = deque(maxlen=LINES)
        self._heard = 0  # lines in all
        self._listener = threading.Thread(target=self._listen, daemon=True)
        for thread in (threading.Thread(target=self._read, daemon=True), self._listener):
            thread.start()

    def send(self, message: object) -> None:
        """Hand over a case. A child that ended says so when it is listened to."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            pickle.dump(message, self.process.stdin)
            self.process.stdin.flush()

    def receive(self, seconds: float) -> Any:
        """The next answer, within a time. Raises Ended, after which there is no child."""
        try:
            answer = self._answers.get(timeout=seconds)
        except queue.Empty:
            self._ask_where()
            self.close()
            raise Ended("timed_out", f"not done after {seconds:g} s{self._where()}") from None
        if isinstance(answer, EOFError):
            self.close()
            raise Ended("crashed", f"the process ended: {_status(self.process.returncode)}{self._where()}")
        return answer

    def close(self) -> None:
        """End it, if it hasn't ended by itself."""
        self.process.kill()
        self.process.wait()
        self._listener.join(LAST_WORDS)

    def _read(self) -> None:
        assert self.process.stdout is not None
        try:
            while True:
                self._answers.put(pickle.load(self.process.stdout))
        except Exception:  # the pipe's end, also in the middle of an answer
            self.process.wait()
            self._answers.put(EOFError())

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._said.append(line.decode(errors="replace").rstrip())
            self._heard += 1
            print(self._said[-1], file=sys.stderr)

    def _ask_where(self) -> None:
        """Have the child's fault handler write what it is doing."""
        if WHERE is None:
            return
        asked, end = self._heard, time.monotonic() + LAST_WORDS
        self.process.send_signal(WHERE)
        while time.monotonic() < end:
            before = self._heard
            time.sleep(PAUSE)
            if asked < before == self._heard:
                return

    def _where(self) -> str:
        """The innermost frame that the fault handler wrote, of the provider's own file if there is one; or the last line."""
        frames = [f for line in self._said if (f := FRAME.search(line))]
        if frame := next((f for f in frames if Path(f[1]).name == self.provider), next(iter(frames), None)):
            return f", in {frame[3]} ({frame[1]}:{frame[2]})"
        return f"; it said: {self._said[-1]:.200}" if self._said and self._said[-1] else ""


class Isolated:
    """Runs cases in a child, and starts another when one has ended. A context manager."""

    def __init__(self, provider: str, seconds: float = SECONDS, loading: float = SECONDS) -> None:
        """Raises what loading the provider raises there, and ProviderError where it hangs or crashes."""
        self.source, self.seconds, self.loading = provider, seconds, loading
        self.name, self.facts, self.kernels = provider, dict[str, str](), list[str]()
        self._child: Child | None = None
        self._ended: dict[str, int] = {}
        self._how = ""
        try:
            self._ready()
        except Ended as ended:
            raise ProviderError(f"provider {provider!r} can't be loaded: {ended}") from None

    def run(self, case: Case) -> Verdict:
        """The verdict of one case."""
        return self._ask(case, 0)

    def repeat(self, case: Case, times: int) -> Verdict:
        """The verdict of one case called many times."""
        return self._ask(case, times)

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def __enter__(self) -> Isolated:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, case: Case, times: int) -> Verdict:
        if self._ended.get(case.op.name, 0) >= PATIENCE:
            return Verdict(case, self.name, "error", f"not run: {PATIENCE} calls of {case.op.name} ended the process", kind=self._how)
        try:
            child = self._ready()
            child.send((pack(case), times))
            fields, shown = child.receive(self.seconds)
        except Ended as ended:
            self._child = None
            self._ended[case.op.name] = self._ended.get(case.op.name, 0) + 1
            self._how = ended.kind
            return Verdict(case, self.name, "error", str(ended), kind=ended.kind)
        return Verdict(case if shown is None else unpack(shown), *fields)

    def _ready(self) -> Child:
        if self._child is None:
            child = Child(self.source)
            state, name, said = child.receive(self.loading)
            if state != "ready":
                child.close()
                raise _raised(name, said)
            self._child, self.name, (self.facts, self.kernels) = child, name, said
        return self._child


def _raised(name: str, words: str) -> Exception:
    """The exception that the child said it met."""
    kind = getattr(errors, name, ProviderError)
    return kind(words) if isinstance(kind, type) and issubclass(kind, errors.VtcoreError) else ProviderError(words)


def _status(code: int) -> str:
    if code >= 0:
        return f"exit status {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"
