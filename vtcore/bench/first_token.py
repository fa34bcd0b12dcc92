"""The first token of a process that starts with nothing: interpreter, imports, weights, prompt."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence

from vtcore.errors import VtcoreError

PROMPT = "The capital of France is"


def command(model: str, options: Sequence[str]) -> list[str]:
    """What is started: the product's own command, for one token."""
    return [sys.executable, "-m", "vtcore", "run", model, PROMPT, "--raw", "--max-tokens", "1", *options]


def seconds_to_output(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> float:
    """Seconds from a process's start to the first byte that it prints. Raises VtcoreError with what it says where it fails."""
    with tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        with subprocess.Popen(
            arguments, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, bufsize=0
        ) as child:
            assert child.stdout is not None
            first = child.stdout.read(1)
            seconds = time.perf_counter() - start
            while child.stdout.read(1 << 16):  # to its end, so that it doesn't run beside what is measured next
                pass
        if child.returncode or not first:
            errors.seek(0)
            said = errors.read()[-2000:].decode(errors="replace").strip()
            raise VtcoreError(f"{' '.join(arguments)} ended with status {child.returncode}: {said or 'without a word'}")
    return seconds
