"""A kernel's text to a verdict: which kernel, how it is launched, in a process of its own."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from vtcore import errors
from vtcore.errors import ArgumentError, nearest
from vtcore.simt.compiler import compiler, version
from vtcore.simt.program import Text
from vtcore.simt.signature import LANGUAGES, Signature
from vtcore.simt.trial import Finding, Launch, Result
from vtcore.simt.values import Given

LARGEST = 1 << 20  # bytes of a text


@dataclass
class Verdict:
    """What was run, and what came of it."""

    kernel: str
    launch: Launch
    compiler: str
    shared: int = 0  # bytes of a group
    result: Result = field(default_factory=lambda: Result([], {}))

    @property
    def failed(self) -> bool:
        """Whether anything was found."""
        return bool(self.result.findings)


def text(path: Path) -> Text:
    """A file's text. Raises ArgumentError for a name that says no language, and for what can't be read."""
    if path.suffix not in LANGUAGES:
        raise ArgumentError(f"{path}: the name's end must say the language: {', '.join(f'{e} ({n})' for e, n in LANGUAGES.items())}")
    try:
        code = path.read_bytes()[: LARGEST + 1].decode()
    except (OSError, UnicodeDecodeError) as wrong:
        raise ArgumentError(f"{path} can't be read: {wrong}") from wrong
    if len(code) > LARGEST:
        raise ArgumentError(f"{path} is over {LARGEST:,} bytes")
    return Text(code, LANGUAGES[path.suffix], path.name)


def chosen(source: Text, name: str | None) -> Signature:
    """The kernel of that name, or the only one. Raises ArgumentError."""
    names = [k.name for k in source.kernels]
    if not names:
        raise ArgumentError(f"{source.name} holds no kernel")
    if name is None and len(names) > 1:
        raise ArgumentError(f"{source.name} holds several kernels: choose by --kernel among {', '.join(names)}")
    if name is not None and name not in names:
        raise ArgumentError(f"{source.name} holds no kernel {name!r}{nearest(name, names)}; there are {', '.join(names)}")
    return next(k for k in source.kernels if name in (None, k.name))


def run(source: Text, kernel: Signature, launch: Launch, values: Given, seconds: float) -> Verdict:
    """The verdict. Raises ProviderUnavailableError without a compiler, ProviderError where it refuses the text."""
    verdict = Verdict(kernel.name, launch, version(compiler()))
    job = pickle.dumps(((source.code, source.language, source.name), kernel, launch, values))
    command = [sys.executable, "-m", "vtcore.simt.child"]
    try:
        done = subprocess.run(command, input=job, capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return _ended(verdict, "time", f"it didn't end within {seconds:g} s: a loop has no end, or --timeout is too short")
    if not done.stdout:
        name = signal.Signals(-done.returncode).name if done.returncode < 0 else f"exit status {done.returncode}"
        return _ended(
            verdict,
            "crash",
            f"its process was ended by {name}: it reads or writes far outside of its buffers, or takes over 256 KiB of stack",
        )
    kind, *answer = pickle.loads(done.stdout)
    if kind == "failed":
        raise getattr(errors, answer[0])(answer[1])
    verdict.shared, verdict.result = answer
    return verdict


def _ended(verdict: Verdict, kind: str, text: str) -> Verdict:
    verdict.result.findings.append(Finding(kind, text))
    return verdict
