"""The command line: one file a command."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import traceback
from collections.abc import Sequence

from vtcore.cli import (
    bench,
    bench_op,
    cache,
    chat,
    check,
    check_page,
    doctor,
    explain,
    flashinfer,
    models,
    ops,
    oracle,
    pull,
    run,
    run_batch,
    serve,
    simt,
)
from vtcore.cli.options import debug
from vtcore.cli.parser import Parser, Version
from vtcore.errors import ArgumentError, VtcoreError

# What is heavy is imported when a command runs, so that --help answers at once.
COMMANDS = (
    run,
    chat,
    run_batch,
    serve,
    simt,
    ops,
    oracle,
    models,
    doctor,
    explain,
    pull,
    cache,
    bench,
    bench_op,
    check,
    check_page,
    flashinfer,
)
OK, FAILED, MISUSED, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 130, 141
HIGHEST_STREAM = 2  # stderr's number


def parser() -> argparse.ArgumentParser:
    """Every command and option."""
    top = Parser("vtcore", description="An LLM inference engine that says what ran where.")
    top.add_argument("--version", action=Version, nargs=0, help="show the version and end")
    debug(top)
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command: 0; 1 for an error or a failed check, 2 for a wrong argument, 130 after Ctrl-C, 141 where nobody reads the output."""
    _open_streams()
    args = parser().parse_args(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that can't show a character shows a question mark
    try:
        code: int | None = args.command(args)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _said("interrupted", INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains when it flushes at exit
        return BROKEN_PIPE
    except Exception as wrong:
        return _failed(wrong, getattr(args, "debug", False))
    return OK if code is None else code


def _open_streams() -> None:
    """From a standard stream that was closed nothing comes, and what goes there is lost; no file that is opened later takes its number."""
    while (handle := os.open(os.devnull, os.O_RDWR)) <= HIGHEST_STREAM:
        pass
    os.close(handle)
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


def _failed(wrong: Exception, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    if isinstance(wrong, (VtcoreError, OSError)):
        return _said(f"error: {wrong}", MISUSED if isinstance(wrong, ArgumentError) else FAILED)
    return _said(f"error: a fault in vtcore, {type(wrong).__name__}: {wrong}; --debug shows where", FAILED)


def _said(message: str, code: int) -> int:
    with contextlib.suppress(BrokenPipeError):
        print(f"vtcore: {' '.join(message.split())}", file=sys.stderr, flush=True)
    return code
