"""Providers by name: built in, from the entry-point group `vtcore.providers`, or one Python file."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from vtcore.errors import ArgumentError, ProviderError, ProviderUnavailableError, VtcoreError, nearest
from vtcore.provider import Provider
from vtcore.providers.arrays import collected

GROUP = "vtcore.providers"
BUILT_IN = ("portable", "reference", "null", "opencl", "vulkan", "cuda", "metal")


@dataclass(frozen=True)
class ProviderOptions:
    """What the caller chose for all providers; one takes what concerns it."""

    threads: int | None = None  # None: as many as the process may use
    isa: str | None = None  # portable's instruction set by name; None: what VTCORE_ISA says, else the best here
    cascade: bool = True  # cascade attention, where a provider has it
    numerics: str = "exact"  # fast: products of dense weights whose bits depend on the number of rows, where a provider has such


Make = Callable[[ProviderOptions], Provider]


def names() -> tuple[str, ...]:
    """Every name that `find` takes, besides paths of files."""
    return (*BUILT_IN, *sorted(e.name for e in entry_points(group=GROUP)))


def find(name: str, options: ProviderOptions | None = None) -> Provider:
    """One provider: a built-in name, an entry point, or `./file.py` that holds `provider`, `make(options)`, or kernels.

    Raises ArgumentError for an unknown name, ProviderUnavailableError (with the reason) where it can't work here."""
    options = options or ProviderOptions()
    if name.endswith(".py"):
        return _made(_loaded(name, lambda: _module_of(Path(name))), name, options)
    if name in BUILT_IN:
        return _made(_loaded(name, lambda: importlib.import_module(f"vtcore.providers.{name}")), name, options)
    for entry in entry_points(group=GROUP):
        if entry.name == name:
            return _made(_loaded(name, entry.load), name, options)
    raise ArgumentError(f"there is no provider {name!r}{nearest(name, names())}; there are {', '.join(names())}, and a path to a .py file")


def chain(wanted: str | Sequence[str] | None, options: ProviderOptions | None = None) -> list[Provider]:
    """The providers of a chain, in the order given: names as a list or comma-separated; None: portable.

    `reference` may only stand last, since nothing falls through it; `null` only alone, since its results are no results."""
    listed = ["portable"] if wanted is None else wanted.split(",") if isinstance(wanted, str) else wanted
    if not isinstance(listed, (list, tuple)) or not all(isinstance(n, str) for n in listed):
        raise ArgumentError(f"providers is {wanted!r:.80}; it must be names, as a list or comma-separated")
    listed = [n.strip() for n in listed if n.strip()]
    if not listed:
        raise ArgumentError(f"providers is empty; name at least one of {', '.join(names())}")
    if len(set(listed)) < len(listed):
        raise ArgumentError(f"providers names one twice: {', '.join(listed)}")
    if "reference" in listed[:-1]:
        raise ArgumentError(f"providers {', '.join(listed)}: reference never declines, so nothing after it would run; put it last")
    if "null" in listed and len(listed) > 1:
        raise ArgumentError("provider null computes shapes only; it can't share a chain with others")
    return [find(n, options) for n in listed]


def _loaded(name: str, load: Callable[[], Any]) -> Any:
    try:
        return load()
    except ImportError as error:
        raise ProviderUnavailableError(f"provider {name!r} can't be loaded: {error}") from error
    except (VtcoreError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        raise ProviderError(f"provider {name!r} can't be loaded: {type(error).__name__}: {error}") from error


def _made(source: Any, name: str, options: ProviderOptions) -> Provider:
    made = getattr(source, "provider", None) or collected(source, Path(name).stem) or source
    make: Any = getattr(source, "make", None)
    build = make if make is not None else made if callable(made) else lambda options: made
    provider = _loaded(name, lambda: build(options))
    if not isinstance(provider, Provider):
        raise ProviderError(
            f"{name} {_shown(provider)}; it must hold `provider`, a Provider, `make(options)` that returns one, or functions under @kernel"
        )
    return provider


def _shown(made: Any) -> str:
    return "holds no kernel" if isinstance(made, ModuleType) else f"gives {type(made).__name__}"


def _module_of(path: Path) -> Any:
    if not path.is_file():
        raise ArgumentError(f"there is no provider file {str(path)!r}")
    spec = importlib.util.spec_from_file_location(f"vtcore_provider_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
