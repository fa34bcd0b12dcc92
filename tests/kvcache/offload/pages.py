"""Pages to put in tiers."""

from __future__ import annotations

import numpy as np

from vtcore.kvcache.offload.tier import Address, Saved


def saved(*keys: bytes, group: str = "g", nbytes: int = 100) -> Saved:
    """Whose bytes follow from its last key."""
    return Saved(group, keys, np.random.default_rng(list(keys[-1])).integers(0, 256, nbytes).astype(np.uint8))


def at(key: bytes, group: str = "g") -> Address:
    return Address(group, key)
