"""`vtcore check PROVIDER [OP...]`: a provider's kernels against the ops' definitions, call by call."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtcore.cli import options

if TYPE_CHECKING:
    from vtcore.conformance.record import Record

FORMATS = ("text", "json", "junit", "markdown", "html")


def add(commands: Any) -> None:
    """Define the command."""
    parser = commands.add_parser("check", help="hold a provider's kernels against the definitions", description=__doc__, allow_abbrev=False)
    parser.add_argument("provider", metavar="PROVIDER", help="a built-in name, an entry point of vtcore.providers, or ./file.py")
    parser.add_argument("ops", metavar="OP", nargs="*", help="only these ops (default: all)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="another seed draws other values (default 0)")
    parser.add_argument("--cases", type=Path, metavar="PATH", help="captured calls instead of samples: a directory, or a file")
    parser.add_argument("--format", choices=FORMATS, default="text", help="how the report is written (default text)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the report there instead of on the terminal")
    options.debug(parser)
    parser.set_defaults(command=main)


def main(args: argparse.Namespace) -> int:
    """Check, report; 1 if anything failed."""
    from vtcore.conformance.reports import render

    record = _checked(args)
    text = render(args.format, record)
    if args.output is None:
        print(text, end="")
    else:
        args.output.write_text(text, encoding="utf-8")
    return int(record.failed)


def _checked(args: argparse.Namespace) -> Record:
    from vtcore import __version__
    from vtcore.conformance.check import check, saved
    from vtcore.conformance.record import Record
    from vtcore.providers import find

    provider = find(args.provider)
    cases = "" if args.cases is None else str(args.cases)
    record = Record(args.provider, args.seed, facts=provider.facts, version=__version__, cases=cases)
    record.verdicts += saved(provider, cases, args.ops) if cases else check(provider, args.ops or None, args.seed)
    provider.close()
    return record
