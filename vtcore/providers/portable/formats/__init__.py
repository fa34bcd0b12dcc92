"""Block formats as this provider stores and reads them: one file each, found by name. A file added here is a native format."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from vtcore.providers.portable.formats.layout import Layout

SHARED = ("layout", "coded")


@cache
def native() -> dict[str, Layout]:
    """The layouts of the formats that have a file here, by the format's name."""
    names = [m.name for m in iter_modules(__path__) if m.name not in SHARED]
    layouts: list[Layout] = [import_module(f"{__name__}.{n}").LAYOUT for n in names]
    return {layout.name: layout for layout in layouts}
