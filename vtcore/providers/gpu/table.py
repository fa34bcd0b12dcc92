"""The table of ops that every provider of an accelerator has: a function that launches, and a guard. One entry serves all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from vtcore.errors import ProviderError
from vtcore.op import Op
from vtcore.providers.gpu.parts import Axes
from vtcore.providers.kernels import lint
from vtcore.providers.kernels import ops as families

Launching = Callable[..., Any]  # (device, then the op's arguments by name) -> Tensors


@dataclass(frozen=True)
class Entry:
    """How an op runs on a device: `function(device, **call)`; `declines(device, **call)` gives a reason, or None."""

    op: Op
    function: Launching
    declines: Callable[..., str | None] | None
    longs: tuple[str, ...] = ()  # arguments that may be integers of 64 bits
    parts: Mapping[str, Axes] = field(default_factory=dict)  # weights that it sees by `parts` where all is too much, and along what


TABLE: dict[str, Entry] = {}


def runs(
    op: Op, *, declines: Callable[..., str | None] | None = None, longs: tuple[str, ...] = (), parts: Mapping[str, Axes] | None = None
) -> Callable[[Launching], Launching]:
    """Enter a function as the one that runs an op on a device."""

    def enter(function: Launching) -> Launching:
        if op.name in TABLE:
            raise ProviderError(f"op {op.name!r} has two entries in the table of accelerators")
        TABLE[op.name] = Entry(op, function, declines, longs, parts or {})
        return function

    return enter


def table() -> dict[str, Entry]:
    """Every entry of every family."""
    with lint.trusted():
        for family in iter_modules(families.__path__):
            import_module(f"{families.__name__}.{family.name}")
    return TABLE
