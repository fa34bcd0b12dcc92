"""`vtcore check-page A.json B.json -o page.html`: the checks of several providers, and timed kernels, on one HTML page."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from vtcore.cli import options


def add(commands: Any) -> None:
    """Define the command."""
    parser = commands.add_parser("check-page", help="several checks on one HTML page", description=__doc__)
    parser.add_argument("reports", metavar="JSON", nargs="+", type=Path, help="what `vtcore check P --format json` wrote")
    parser.add_argument("--bench", metavar="JSON", action="append", default=[], type=Path, help="what `vtcore bench-op --json` wrote")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, required=True, help="the page")
    options.debug(parser)
    parser.set_defaults(command=main)


def main(args: argparse.Namespace) -> None:
    """Read, write."""
    from vtcore.conformance.reports.html import page
    from vtcore.conformance.reports.page_model import Column, Race
    from vtcore.formats.json_file import read_object
    from vtcore.written import write

    options.writable({"output": args.output})
    columns = [Column.of(read_object(path), str(path)) for path in args.reports]
    races = [Race.of(read_object(path), str(path)) for path in args.bench]
    write(args.output, page(columns, races))
