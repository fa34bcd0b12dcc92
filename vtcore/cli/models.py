"""`vtcore models [NAME]`: every architecture, the names that checkpoints give it, and the goldens that gate it; or one, with what it is."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from vtcore.cli import options

if TYPE_CHECKING:
    from vtcore.models.network import Network

MARKDOWN = ("| config.json | GGUF | goldens | in | what it is |", "|---|---|---|---|---|")


def add(commands: Any) -> None:
    """Define the command."""
    parser = commands.add_parser("models", help="list the architectures, or explain one", description=__doc__, allow_abbrev=False)
    parser.add_argument("name", metavar="NAME", nargs="?", help="as in config.json's architectures, or GGUF's general.architecture")
    parser.add_argument("--markdown", action="store_true", help="as the table of docs/models.md")
    options.debug(parser)
    parser.set_defaults(command=main)


def main(args: argparse.Namespace) -> None:
    """Print the list, or one architecture."""
    from vtcore.errors import ArgumentError

    rows = [r for r in listed() if args.name in (None, *r.names, *r.gguf)]
    if not rows:
        known = sorted(n for r in listed() for n in (*r.names, *r.gguf))
        raise ArgumentError(f"there is no architecture {args.name!r}; there are {', '.join(known)}")
    lines = (*MARKDOWN, *(r.markdown() for r in rows)) if args.markdown else (r.text(whole=args.name is not None) for r in rows)
    sys.stdout.writelines(f"{line}\n" for line in lines)


@dataclass(frozen=True)
class Row:
    """One architecture: its class names in config.json, its names in GGUF, its goldens, its module and what that says of itself."""

    names: tuple[str, ...]
    gguf: tuple[str, ...]
    goldens: tuple[str, ...]
    module: str
    about: str

    def text(self, whole: bool = False) -> str:
        """A line; or, whole, a few of them."""
        count = f"{len(self.goldens)} golden{'s' * (len(self.goldens) != 1)}"
        if not whole:
            return f"{', '.join(self.names):66} {', '.join(self.gguf) or '-':14} {count}"
        parts = {"config.json": self.names, "GGUF": self.gguf, "goldens": self.goldens, "in": (self.module,)}
        return "\n".join([self.about, *(f"{n:12} {', '.join(v) or '-'}" for n, v in parts.items())])

    def markdown(self) -> str:
        """A row of the table."""
        parts = (self.names, self.gguf, self.goldens, (self.module.rpartition(".")[2] + ".py",), (self.about,))
        return f"| {' | '.join(', '.join(p) or '-' for p in parts)} |"


def listed() -> Iterator[Row]:
    """All that are registered, in order of their names."""
    from vtcore.models.registry import ARCHITECTURES, GGUF_ARCHITECTURES, load_all

    load_all()
    classes = {cls: None for _, cls in sorted(ARCHITECTURES.items())} | {cls: None for _, cls in sorted(GGUF_ARCHITECTURES.items())}
    for cls in classes:
        names, gguf = (tuple(n for n, c in table.items() if c is cls) for table in (ARCHITECTURES, GGUF_ARCHITECTURES))
        gated = (n for n, config in recorded().items() if config["architectures"][0] in names and not cls.refused(config))
        yield Row(names, gguf, tuple(gated), cls.__module__, about(cls))


def about(cls: type[Network]) -> str:
    """The first paragraph of a module's docstring, on one line."""
    text = sys.modules[cls.__module__].__doc__ or cls.__doc__ or ""
    return " ".join(text.partition("\n\n")[0].split())


@cache
def recorded() -> dict[str, Any]:
    """The config of every golden, by the golden's name."""
    from vtcore.conformance.golden import FOLDER

    return {path.stem: json.loads(path.read_text())["config"] for path in sorted(FOLDER.glob("*.json"))}
