"""Writes docs/status.md from what is registered: architectures, weight formats, and which provider has which op."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import vtcore.ops
from vtcore.models.registry import ARCHITECTURES, GGUF_ARCHITECTURES, load_all
from vtcore.providers import BUILT_IN, find
from vtcore.quant import FORMATS

PAGE = Path(__file__).parents[1] / "docs/status.md"
EVERYTHING = ("reference", "null")  # providers whose rows would say nothing: they take every op


def lines() -> Iterator[str]:
    """The page, line by line."""
    yield from ("# Status", "", "Written by `python tools/status_table.py` from the registries; a test holds it to them.", "")
    yield from ("## Architectures", "", "| config.json | GGUF | file |", "|---|---|---|", *_architectures(), "")
    yield from ("## Block formats of GGUF", "", ", ".join(sorted(FORMATS)) + ".", "")
    providers = [find(name) for name in BUILT_IN if name not in EVERYTHING]
    names = [p.name for p in providers]
    yield from ("## Ops with a kernel", "", f"| op | {' | '.join(names)} |", "|---" * (1 + len(names)) + "|")
    for name in sorted(vtcore.ops.__all__):
        yield f"| {name} | {' | '.join('yes' if name in p.kernels else 'its definition' for p in providers)} |"
    for provider in providers:
        provider.close()


def _architectures() -> Iterator[str]:
    load_all()
    own = {cls for cls in (*ARCHITECTURES.values(), *GGUF_ARCHITECTURES.values()) if cls.__module__.startswith("vtcore.")}
    for cls in sorted(own, key=lambda cls: (cls.__module__, cls.__name__)):
        spelled = [", ".join(n for n, c in table.items() if c is cls) for table in (ARCHITECTURES, GGUF_ARCHITECTURES)]
        yield f"| {' | '.join(spelled)} | {cls.__module__.rpartition('.')[2]}.py |"


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
