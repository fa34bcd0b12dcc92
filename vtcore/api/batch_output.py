"""The answers' file of a batch: a line an answer, each written at once and whole, so that a run can be taken up where it was killed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from filelock import FileLock, Timeout

from vtcore.errors import ArgumentError, VtcoreError


class BatchOutput:
    """Open for appending, and locked against a second process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = FileLock(f"{path}.lock", timeout=0)
        self.answered: dict[str, str] = {}  # custom_id -> the id of its line

    def __enter__(self) -> BatchOutput:
        """Read what is there, and cut off a line that was half written. ArgumentError for a file that holds anything else."""
        try:
            self._lock.acquire()
        except Timeout:
            raise ArgumentError(f"{self.path} is being written by another process; wait for it, or name another file") from None
        with ExitStack() as opened:
            opened.callback(self._lock.release)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            opened.callback(os.close, self._file)
            os.ftruncate(self._file, self._read())
            self._opened = opened.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._opened.close()

    def write(self, custom_id: str, answer: Mapping[str, Any]) -> None:
        """Append one answer. Raises VtcoreError where the disk doesn't take it."""
        raw = (json.dumps(answer, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")  # half a pair, as JSON spells it
        try:
            while raw:
                raw = raw[os.write(self._file, raw) :]
        except OSError as full:
            told = f"{self.path} can't be written after {len(self.answered)} answers: {full.strerror}"
            raise VtcoreError(f"{told}; make room, and run the same command again") from full
        self.answered[custom_id] = str(answer["id"])

    def _read(self) -> int:
        """Bytes up to the end of the last whole line."""
        whole = 0
        with self.path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                if not raw.endswith(b"\n"):
                    break
                custom_id, answer_id = _named(raw, f"{self.path}, line {number}")
                if custom_id in self.answered:
                    raise ArgumentError(f"{self.path}, line {number}: custom_id {custom_id!r:.100} is answered twice; move the file away")
                self.answered[custom_id] = answer_id
                whole += len(raw)
        return whole


def _named(raw: bytes, where: str) -> tuple[str, str]:
    try:
        told = json.loads(raw)
        return str(told["custom_id"]), str(told["id"])
    except (ValueError, RecursionError, TypeError, KeyError):
        raise ArgumentError(f"{where}: no answer of a batch; move the file away, or name another one") from None
