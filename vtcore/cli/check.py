"""`vtcore check PROVIDER [OP...]`: a provider's kernels against the ops' definitions, call by call."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtcore.cli import options

if TYPE_CHECKING:
    from vtcore.conformance.examine import Plan
    from vtcore.conformance.verdict import Verdict

FORMATS = ("text", "json", "junit", "markdown", "html")


def add(commands: Any) -> None:
    """Define the command."""
    parser = commands.add_parser("check", help="hold a provider's kernels against the definitions", description=__doc__)
    parser.add_argument("provider", metavar="PROVIDER", help="a built-in name, an entry point of vtcore.providers, or ./file.py")
    parser.add_argument("ops", metavar="OP", nargs="*", help="only these ops (default: all)")
    which = parser.add_argument_group("which calls")
    which.add_argument("--fuzz", type=options.positive, default=0, metavar="N", help="draw N calls an op besides; a failing one is shrunk")
    which.add_argument("--seed", type=_seed, default=0, metavar="N", help="another seed draws other values (default 0)")
    which.add_argument("--case", metavar="NUMBER", help="only this one of each op, such as 3 or fresh2")
    which.add_argument("--cases", type=Path, metavar="PATH", help="saved calls instead of samples: a directory, or a file")
    which.add_argument("--list", action="store_true", help="show the calls, and run none")
    how = parser.add_argument_group("how they are run")
    how.add_argument("--isolate", action=argparse.BooleanOptionalAction, help="in a process of their own (default: unless built in)")
    how.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="for one case, in a process of its own (default 60)")
    how.add_argument("--known-gaps", type=Path, metavar="FILE", help="failures that are expected: an op or a case a line, and the reason")
    report = parser.add_argument_group("report")
    report.add_argument("--format", choices=FORMATS, default="text", help="how it is written (default text)")
    report.add_argument("--output", type=Path, metavar="FILE", help="where to (default: the terminal)")
    report.add_argument("--save", type=Path, metavar="DIR", help="keep the inputs of failing calls there, as .npz")
    options.debug(parser)
    parser.set_defaults(command=main)


def main(args: argparse.Namespace) -> int:
    """Check, report; 1 if anything failed."""
    from vtcore.conformance.examine import examine, listed
    from vtcore.conformance.reports import render
    from vtcore.written import write

    options.writable({"output": args.output})
    if args.list:
        _nothing_runs(args)
        for case in listed(args.ops, args.seed):
            print(f"{case.label:24s} {case}")
        return 0
    record = examine(args.provider, args.ops, _plan(args), _shower())
    text = render(args.format, record)
    if args.output is None:
        print(text, end="")
    else:
        write(args.output, text)
        print(f"{args.provider}: {'failed' if record.failed else 'passed'}; the report is in {args.output}")
    return int(record.failed)


def _nothing_runs(args: argparse.Namespace) -> None:
    from vtcore.errors import ArgumentError

    for name in ("fuzz", "case", "cases", "isolate", "timeout", "known_gaps", "output", "save"):
        if getattr(args, name):
            raise ArgumentError(f"--{name.replace('_', '-')} has no effect with --list, which shows the samples and runs nothing")


def _plan(args: argparse.Namespace) -> Plan:
    from vtcore.conformance.examine import Plan

    return Plan(args.seed, args.fuzz, args.case, args.cases, args.isolate, args.timeout, args.known_gaps, args.save)


def _shower() -> Any:
    """On a terminal, a line that says where the check is."""
    seen = 0

    def show(verdict: Verdict) -> None:
        nonlocal seen
        seen += 1
        if sys.stderr.isatty():
            print(f"\r{seen:6d} {verdict.case.label:40.40s}", end="\r", file=sys.stderr, flush=True)

    return show


def _seed(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) >= 1 << 63:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 2^63")
    return int(text)


def _seconds(text: str) -> float:
    value = options.number(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time over 0")
    return value
