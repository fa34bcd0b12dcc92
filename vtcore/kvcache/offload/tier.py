"""A place for pages below the pools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

Array = np.ndarray[Any, Any]


class Address(NamedTuple):
    """A page of a cache group, by one of the keys that stood for its content."""

    group: str
    key: bytes


@dataclass(frozen=True, eq=False)
class Saved:
    """A page's bytes, uint8 [n], and the keys that stand for it: the last one names it."""

    group: str
    keys: tuple[bytes, ...]
    data: Array

    @property
    def address(self) -> Address:
        """Its name."""
        return Address(self.group, self.keys[-1])


@dataclass(frozen=True)
class TierStats:
    """Bytes that a tier may hold and holds; pages that admitted sequences asked it for, and that it had; bytes and pages written and read;
    pages given up for others, and pages that were damaged or somebody else's: those were misses. `faults`: the last of them, in words."""

    capacity: int
    nbytes: int
    pages: int
    queries: int = 0
    hits: int = 0
    stored_pages: int = 0
    stored_bytes: int = 0
    loaded_bytes: int = 0
    evictions: int = 0
    damaged: int = 0
    faults: tuple[str, ...] = ()


class Tier(Protocol):
    """One place."""

    name: str
    lasting: bool  # whether it outlives the process
    queries: int  # counted by whoever asks
    hits: int

    def has(self, address: Address) -> bool:
        """Whether a page seems to be there. Cheap: no content is looked at."""
        ...

    def read(self, address: Address) -> Saved | None:
        """The page, as it was written; None where it is not there, or not whole any more."""
        ...

    def holds(self, address: Address) -> bool:
        """Whether a page of this name is there; then it counts as used."""
        ...

    def write(self, page: Saved) -> list[Saved]:
        """Hold a page: what is no longer held for it, the page itself where it is too large."""
        ...

    def held(self) -> list[Saved]:
        """Pages that are lost when the process ends, the one unused for longest first."""
        ...

    def clear(self) -> None:
        """Hold nothing."""
        ...

    def close(self) -> None:
        """It is not asked any more."""
        ...

    def stats(self) -> TierStats:
        """What it holds, and did so far."""
        ...
