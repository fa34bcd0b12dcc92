"""The options of `vtcore run` that look on: a trace of all that happens, and calls of ops kept as cases."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from vtcore.cli import options

if TYPE_CHECKING:
    from vtcore.conformance.harvest import Harvest
    from vtcore.llm import LLM
    from vtcore.timeline import Timeline


def add(parser: argparse.ArgumentParser) -> None:
    """Define them."""
    group = parser.add_argument_group("looking on")
    group.add_argument("--trace", metavar="FILE", type=Path, help="write every step and op as a trace for ui.perfetto.dev; replays no step")
    group.add_argument("--trace-replay", action="store_true", help="with --trace: replay steps as ever; their ops are counted, not timed")
    group.add_argument("--capture", dest="wanted", metavar="OP:N", action="append", help="keep N calls of OP as cases (may be repeated)")
    group.add_argument("--capture-dir", metavar="DIR", type=Path, help="where --capture writes its .npz files (default: captured)")


def check(args: argparse.Namespace) -> Harvest | None:
    """Refuse what can't work before a model is loaded; a trace of every op switches replay off."""
    from vtcore.errors import ArgumentError

    if args.trace_replay and args.trace is None:
        raise ArgumentError("--trace-replay does nothing without --trace FILE")
    options.writable({"trace": args.trace})
    if args.trace is not None and not args.trace_replay:
        args.capture = False
    elif args.trace_replay and not args.capture:
        raise ArgumentError("--trace-replay and --no-capture contradict each other: one replays steps, the other replays none")
    return _harvest(args)


@contextmanager
def watching(args: argparse.Namespace, harvest: Harvest | None, llm: LLM) -> Iterator[None]:
    """While open, what was asked for is looked at; files are written, and said, even where a run is broken off."""
    from contextlib import ExitStack

    from vtcore.timeline import Timeline
    from vtcore.watched import dispatcher_of

    with ExitStack() as stack:
        if harvest is not None:
            stack.callback(_say, harvest)
            stack.enter_context(harvest.of(dispatcher_of(llm.engine)))
        if args.trace is not None:
            timeline = Timeline(llm.engine, {"model": args.model, "replay": "on" if args.trace_replay else "off: every step runs op by op"})
            stack.callback(_write, timeline, args.trace)
            stack.enter_context(timeline)
        yield


def _write(timeline: Timeline, path: Path) -> None:
    from vtcore.cli import session

    timeline.write(path)
    session.note(f"wrote {len(timeline.events)} events to {path}")


def _harvest(args: argparse.Namespace) -> Harvest | None:
    from vtcore.conformance.harvest import Harvest, parse
    from vtcore.errors import ArgumentError

    if args.wanted is None:
        if args.capture_dir is not None:
            raise ArgumentError("--capture-dir does nothing without --capture OP:N")
        return None
    source = {n: getattr(args, n) for n in ("model", "numerics", "providers", "dtype")}
    return Harvest(parse(args.wanted), args.capture_dir or Path("captured"), source)


def _say(harvest: Harvest) -> None:
    from vtcore.cli import session

    for line in (*dict.fromkeys(harvest.notes), *harvest.missing()):
        session.note(line)
    session.note(f"{harvest.kept.total()} cases in {harvest.directory}; `vtcore check PROVIDER --cases {harvest.directory}` runs them")
