"""A pool together with the tiers below it, as one look-up sees them."""

from __future__ import annotations

from collections.abc import Sequence

from vtcore.kvcache.offload.tier import Address, Tier
from vtcore.kvcache.pool import PagePool


class View:
    """Finds pages by key. One that only a tier has bears a number beyond the pool's, until it is brought; `keys` tells which it is."""

    def __init__(self, pool: PagePool, group: str, tiers: Sequence[Tier]) -> None:
        self.pool, self.group, self.tiers = pool, group, tiers
        self.keys: dict[int, bytes] = {}
        self._numbers: dict[bytes, int] = {}
        self.missed: dict[bytes, int] = {}  # keys that the pool lacks -> which tier has them, len(tiers) where none does

    def find(self, key: bytes) -> int | None:
        """The page that a key leads to."""
        page = self.pool.find(key)
        return self._below(key) if page is None else page

    def _below(self, key: bytes) -> int | None:
        if key not in self.missed:
            address = Address(self.group, key)
            self.missed[key] = next((i for i, tier in enumerate(self.tiers) if tier.has(address)), len(self.tiers))
            if self.missed[key] < len(self.tiers):
                number = self._numbers[key] = self.pool.pages + len(self.keys)
                self.keys[number] = key
        return self._numbers.get(key)
