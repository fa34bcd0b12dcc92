"""The process that a provider runs in when it may end it: reads cases from its standard input, writes verdicts to its standard output."""

from __future__ import annotations

import faulthandler
import io
import os
import pickle
import signal
import sys
from typing import Any, BinaryIO

from vtcore.conformance import trial
from vtcore.conformance.saved import pack, unpack
from vtcore.errors import VtcoreError
from vtcore.provider import Provider
from vtcore.simt.provider import found


def main() -> None:
    """Load the provider named on the command line, say so, and answer until the input ends."""
    faulthandler.enable()
    if hasattr(faulthandler, "register"):  # not on Windows
        faulthandler.register(signal.SIGUSR1)
    cases, verdicts = _channels()
    try:
        provider = found(sys.argv[1])
    except VtcoreError as wrong:
        _send(verdicts, ("unavailable", type(wrong).__name__, str(wrong)))
        return
    _send(verdicts, ("ready", provider.name, (dict(provider.facts), sorted(provider.kernels))))
    while True:
        try:
            arrays, times = pickle.load(cases)
        except EOFError:
            break
        _send(verdicts, _answer(provider, arrays, times))
    provider.close()


def _answer(provider: Provider, arrays: dict[str, Any], times: int) -> tuple[tuple[Any, ...], dict[str, Any] | None]:
    """A verdict but for its case, and the case that it shows if that is another than was sent."""
    case = unpack(arrays)
    v = trial.repeat(provider, case, times) if times else trial.run(provider, case)
    fields = (v.provider, v.outcome, v.reason, v.worst, v.kind, v.seconds, v.bound_at)
    return fields, None if v.case is case else pack(v.case)


def _channels() -> tuple[BinaryIO, BinaryIO]:
    """The two pipes, and nothing else of theirs: what a kernel prints goes to the error output."""
    cases, verdicts = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # what is printed survives a crash
    return cases, verdicts


def _send(to: BinaryIO, message: object) -> None:
    pickle.dump(message, to)
    to.flush()


if __name__ == "__main__":
    main()
