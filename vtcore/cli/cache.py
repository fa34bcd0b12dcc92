"""`vtcore cache show | clear`: what is kept on disk, and room for something else."""

from __future__ import annotations

import argparse
from typing import Any

from vtcore.caches import KINDS, VARIABLE, cache_directory, clear, kept
from vtcore.cli import options


def add(commands: Any) -> None:
    """Define the command and its two actions."""
    parser = commands.add_parser("cache", help="show or clear kept kernels and models", description=__doc__)
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    showing = actions.add_parser("show", help="what is kept, and its size")
    showing.set_defaults(command=show)
    clearing = actions.add_parser("clear", help="remove what is kept; it is compiled or fetched again when it is needed")
    clearing.add_argument("what", choices=[*KINDS, "all"], metavar="WHAT", help=f"{', '.join(KINDS)} or all")
    clearing.set_defaults(command=remove)
    for each in (parser, showing, clearing):
        options.debug(each)


def show(args: argparse.Namespace) -> None:
    """A line for all kernels, and one for each model."""
    print(f"{cache_directory()} ({VARIABLE} chooses another)")
    for part in kept():
        print(f"  {part.name:24s} {part.files:5d} files {part.nbytes / 1e6:9.1f} MB")


def remove(args: argparse.Namespace) -> None:
    """Of one kind, or of all."""
    for kind in KINDS if args.what == "all" else (args.what,):
        print(f"{kind}: {clear(kind) / 1e6:.1f} MB removed")
