"""`vtcore explain MODEL`: what a model is, what it needs, and which op would run where, from its headers alone."""

from __future__ import annotations

import argparse
from typing import Any

from vtcore.cli import options


def add(commands: Any) -> None:
    """Define the command."""
    parser = commands.add_parser("explain", help="what a model is and needs, before loading it", description=__doc__, allow_abbrev=False)
    options.model(parser)
    options.engine(parser)
    options.debug(parser)
    parser.set_defaults(command=main)


def main(args: argparse.Namespace) -> None:
    """Print it."""
