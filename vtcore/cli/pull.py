"""`vtcore pull MODEL`: fetch a model, check it, and print where it is."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from vtcore.cli import options


def add(commands: Any) -> None:
    """Define the command."""
    parser = commands.add_parser("pull", help="fetch a model and print its path", description=__doc__)
    options.model(parser)
    options.debug(parser)
    parser.set_defaults(command=main)


def main(args: argparse.Namespace) -> None:
    """Of a catalogue model that is there already, all bytes are checked again."""
    from vtcore.catalogue import CATALOGUE, fetched, resolve
    from vtcore.cli.progress import bar

    with bar() as progress:
        entry = CATALOGUE.get(args.model)
        path = fetched(entry, progress, verify=True) if entry else resolve(args.model, progress)
    if entry:
        print(f"{entry.about}; licence: {entry.licence}", file=sys.stderr)
    print(path)
