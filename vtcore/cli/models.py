"""`vtcore models [NAME]`: every architecture: its names in checkpoints of each format, the goldens that gate it, and which providers run
these without a fallback; or one, with what it is."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from vtcore.cli import options

if TYPE_CHECKING:
    from vtcore.conformance.golden import Golden
    from vtcore.models.network import Network
    from vtcore.provider import Provider

MARKDOWN = ("| config.json | GGUF | goldens | runs on | in | what it is |", "|---|---|---|---|---|---|")


def add(commands: Any) -> None:
    """Define the command."""
    parser = commands.add_parser("models", help="list the architectures, or explain one", description=__doc__)
    parser.add_argument("name", metavar="NAME", nargs="?", help="as in config.json's architectures, or GGUF's general.architecture")
    parser.add_argument("--markdown", action="store_true", help="as the table of docs/models.md")
    options.debug(parser)
    parser.set_defaults(command=main)


def main(args: argparse.Namespace) -> None:
    """Print the list, or one architecture."""
    from vtcore.cli.ops import found_providers
    from vtcore.errors import ArgumentError, nearest

    entries = [e for e in listed() if args.name in (None, *e.names, *e.gguf)]
    if not entries:
        known = sorted(n for e in listed() for n in (*e.names, *e.gguf))
        raise ArgumentError(f"there is no architecture {args.name!r}{nearest(args.name, known)}; there are {', '.join(known)}")
    providers = found_providers()
    try:
        rows = [row(e, providers) for e in entries]
    finally:
        for provider in providers:
            provider.close()
    lines = (*MARKDOWN, *(r.markdown() for r in rows)) if args.markdown else (r.text(whole=args.name is not None) for r in rows)
    sys.stdout.writelines(f"{line}\n" for line in lines)


@dataclass(frozen=True)
class Entry:
    """One architecture: its class names in config.json, its names in GGUF, its goldens, its module and what that says of itself."""

    names: tuple[str, ...]
    gguf: tuple[str, ...]
    goldens: tuple[str, ...]
    module: str
    about: str
    ungated: str = ""

    @property
    def gates(self) -> tuple[str, ...]:
        """Its goldens, or what stands in for them."""
        return self.goldens or ((self.ungated,) if self.ungated else ())

    @property
    def formats(self) -> tuple[str, ...]:
        """What it is read from."""
        return tuple(format_ for format_, known in (("safetensors", self.names), ("GGUF", self.gguf)) if known)


@dataclass(frozen=True)
class Row:
    """An architecture, and by provider the ops of its goldens' forwards that fall back; without a golden nobody knows."""

    entry: Entry
    fallbacks: Mapping[str, tuple[str, ...]]

    @property
    def runs_on(self) -> tuple[str, ...]:
        """The providers without a fallback."""
        return tuple(name for name, ops in self.fallbacks.items() if not ops)

    def text(self, whole: bool = False) -> str:
        """A line; or, whole, a few of them."""
        e = self.entry
        count = f"{len(e.goldens)} golden{'s' * (len(e.goldens) != 1)}" if e.goldens or not e.ungated else "ungated"
        if not whole:
            return f"{', '.join(e.names):66} {', '.join(e.gguf) or '-':14} {count:10} {', '.join(self.runs_on) or '-'}"
        parts = {"config.json": e.names, "GGUF": e.gguf, "formats": e.formats, "goldens": e.gates}
        parts |= {"runs on": self._said() if e.goldens else ("not known without a golden: `vtcore explain` tells it of a checkpoint",)}
        return "\n".join([e.about, *(f"{n:12} {', '.join(v) or '-'}" for n, v in (parts | {"in": (e.module,)}).items())])

    def _said(self) -> tuple[str, ...]:
        return tuple(f"{name}, but for {' '.join(ops)}" if ops else f"{name} without a fallback" for name, ops in self.fallbacks.items())

    def markdown(self) -> str:
        """A row of the table."""
        e = self.entry
        parts = (e.names, e.gguf, e.gates, self.runs_on, (e.module.rpartition(".")[2] + ".py",), (e.about,))
        return f"| {' | '.join(', '.join(p) or '-' for p in parts)} |"


def listed() -> Iterator[Entry]:
    """All that are registered, in order of their names."""
    from vtcore.models.registry import ARCHITECTURES, GGUF_ARCHITECTURES, GUESTS, load_all

    load_all()
    classes = {cls: None for _, cls in sorted(ARCHITECTURES.items())} | {cls: None for _, cls in sorted(GGUF_ARCHITECTURES.items())}
    for cls in classes:
        names, gguf = (tuple(n for n, c in table.items() if c is cls) for table in (ARCHITECTURES, GGUF_ARCHITECTURES))
        gated = (n for n, g in recorded().items() if g.architecture in names and not cls.refused(g.config))
        yield Entry(names, gguf or tuple(n for c, n in GUESTS.items() if c is cls), tuple(gated), cls.__module__, about(cls), cls.ungated)


def row(entry: Entry, providers: Sequence[Provider]) -> Row:
    """An architecture with what each provider, alone, would decline."""
    from vtcore.conformance.shapes import fallbacks, outline

    models = [outline(recorded()[name]) for name in entry.goldens]
    if not models:
        return Row(entry, {})
    return Row(entry, {p.name: tuple(sorted({op for m in models for op in fallbacks(m, p)})) for p in providers})


def about(cls: type[Network]) -> str:
    """The first paragraph of a module's docstring, on one line."""
    text = sys.modules[cls.__module__].__doc__ or cls.__doc__ or ""
    return " ".join(text.partition("\n\n")[0].split())


@cache
def recorded() -> dict[str, Golden]:
    """Every golden by its name."""
    from vtcore.conformance.golden import goldens

    return {golden.name: golden for golden in goldens()}
