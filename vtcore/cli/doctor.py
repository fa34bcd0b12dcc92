"""`vtcore doctor`: versions, the processor, the providers that work here, and why the others don't."""

from __future__ import annotations

import argparse
from typing import Any

from vtcore.cli import options

MARKS = {True: "yes", False: "no ", None: "   "}


def add(commands: Any) -> None:
    """Define the command."""
    parser = commands.add_parser("doctor", help="what works here, and why the rest doesn't", description=__doc__)
    options.debug(parser)
    parser.set_defaults(command=main)


def main(args: argparse.Namespace) -> None:
    """Print the examination, section by section."""
    from vtcore.doctor import examine

    section = ""
    for row in examine():
        if row.section != section:
            print(f"{chr(10) if section else ''}{row.section}")
            section = row.section
        print(f"  {MARKS[row.good]} {row.name:16s} {row.text}")
