"""Architectures by the names that checkpoints give them: built in, or from packages with entry points in the group `vtcore.models`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, TypeVar

from vtcore.errors import UnknownArchitectureError, nearest

if TYPE_CHECKING:
    from vtcore.models.network import Network

GROUP = "vtcore.models"
ARCHITECTURES: dict[str, type[Network]] = {}  # by the class name in config.json's `architectures`
GGUF_ARCHITECTURES: dict[str, type[Network]] = {}  # by GGUF's general.architecture
GUESTS: dict[type[Network], str] = {}  # classes whose GGUF files have the name of another: it reads them, or its `variant` picks the guest
M = TypeVar("M", bound="type[Network]")


def architecture(*names: str, gguf: tuple[str, ...] = (), within: str = "") -> Callable[[M], M]:
    """Register a class under the names that checkpoints give it: classes of transformers, and GGUF's own. `within`: the GGUF name that its
    files share with another class's."""

    def register(cls: M) -> M:
        if within:
            GUESTS[cls] = within
        for table, keys in ((ARCHITECTURES, names), (GGUF_ARCHITECTURES, gguf)):
            for name in keys:
                if (other := table.setdefault(name, cls)) is not cls:
                    raise ValueError(f"architecture {name!r} is registered twice: by {other.__module__} and by {cls.__module__}")
        return cls

    return register


@cache
def load_all() -> tuple[str, ...]:
    """Import every module of this package and every entry point; what went wrong with the latter, in words."""
    import vtcore.models as package

    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"vtcore.models.{module.name}")
    broken = []
    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as e:
            broken.append(f"entry point {entry.name!r} ({entry.value}) failed: {type(e).__name__}: {e}")
    return tuple(broken)


MOST, LONGEST = 8, 80  # names, and characters of one, that an error shows and compares


def find(names: Iterable[str], table: dict[str, type[Network]]) -> type[Network]:
    """The class of the first name that is registered in a table; UnknownArchitectureError lists what there is."""
    broken, asked = load_all(), list(names)
    for name in asked:
        if name in table:
            return table[name]
    shown = [name[:LONGEST] for name in asked[:MOST]]
    hint = next(filter(None, (nearest(name, table) for name in shown)), "")
    failed = "".join(f"; {b}" for b in broken)
    raise UnknownArchitectureError(
        f"no model is registered as {' or '.join(map(repr, shown))}{hint}; there are {', '.join(sorted(table))}{failed}"
    )
