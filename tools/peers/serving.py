"""The engine's end of the pipe. Needs nothing but Python, since it runs wherever a peer is installed.

A request is an object with "do"; an answer holds what was asked for, or "error", or (to the greeting only) "missing"."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Protocol

Answer = dict[str, Any]


class Engine(Protocol):
    """What a peer's file defines. `variants` are settings that a caller may choose from, for whichever is fastest."""

    about: str
    variants: tuple[str, ...]

    def prefill(self, variant: str, tokens: int) -> Answer:
        """{"tokens", "seconds"}: a prompt up to its first token."""

    def decode(self, variant: str, batch: int, context: int, steps: int) -> Answer:
        """{"tokens", "seconds"}: steps of so many sequences together, after prompts of `context` tokens; the prompts aren't counted."""


def main() -> None:
    """Greet, and answer until the input ends; or, with --first-token, print one token after a text and end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("engine", help="of peers/*_engine.py")
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--numerics", default="exact")
    parser.add_argument("--first-token", metavar="TEXT")
    args = parser.parse_args()
    out = private_stdout()
    if args.first_token is not None:
        out.write(make(args).first_token(args.first_token) + "\n")
        out.flush()
    else:
        serve(lambda: make(args), out, sys.stdin)


def make(args: argparse.Namespace) -> Any:
    """The engine, with its model loaded. ImportError where it isn't installed."""
    return import_module(f"peers.{args.engine}_engine").make(args)


def private_stdout() -> IO[str]:
    """The real stdout; whatever libraries print goes to stderr from now on."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return out


def serve(start: Callable[[], Any], out: IO[str], requests: Iterable[str]) -> None:
    """One line in, one line out."""
    try:
        engine = start()
    except ImportError as wrong:
        say(out, {"missing": str(wrong)})
        return
    except Exception as wrong:  # a peer's own, of any kind
        say(out, {"error": f"{type(wrong).__name__}: {wrong}"})
        return
    say(out, {"about": engine.about, "variants": list(engine.variants)})
    for line in requests:
        say(out, answer(engine, json.loads(line)))


def answer(engine: Any, request: dict[str, Any]) -> Answer:
    """What an engine says to one request."""
    what = request.pop("do")
    try:
        return {"bytes": peak_memory()} if what == "memory" else dict(getattr(engine, what)(**request))
    except Exception as wrong:  # as above
        return {"error": f"{type(wrong).__name__}: {wrong}"}


def say(out: IO[str], answer: Answer) -> None:
    """A line."""
    out.write(json.dumps(answer) + "\n")
    out.flush()


def peak_memory() -> int:
    """Bytes: the most that this process has held, mapped files included. Linux only."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return int(fields["VmHWM"].split()[0]) << 10


if __name__ == "__main__":
    main()
