"""What stands behind an engine's pools, put together from its options: tiers for pages, and a publisher of events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vtcore import __version__
from vtcore.errors import ArgumentError
from vtcore.formats.checkpoint import Checkpoint
from vtcore.kvcache.below import Below
from vtcore.kvcache.cache import Cache
from vtcore.kvcache.config import CacheConfig
from vtcore.kvcache.events.config import KVEventsConfig
from vtcore.kvcache.events.log import EventLog
from vtcore.kvcache.events.publisher import Publisher
from vtcore.kvcache.hashing import Hasher
from vtcore.kvcache.offload.config import OffloadConfig
from vtcore.kvcache.offload.disk import DiskTier
from vtcore.kvcache.offload.host import HostTier
from vtcore.kvcache.offload.identity import FORM, layout, rules, weights_digest
from vtcore.kvcache.offload.offload import Offload
from vtcore.kvcache.offload.rows import Rows
from vtcore.kvcache.offload.tier import Tier
from vtcore.provider import Provider

WITHOUT_BITS = ("threads", "kernel cache", "cascade attention")  # facts of a provider on which no bit of a result depends


@dataclass(frozen=True)
class Maker:
    """Of what a page's bits depend on: the checkpoint, how it is computed, and by whom."""

    checkpoint: Checkpoint
    numerics: str
    dtype: str | None
    context: int  # the longest sequence that it is computed for
    providers: Sequence[Provider]
    scales: Mapping[int, tuple[float, float]] = field(default_factory=dict)  # of keys and values by layer, as far as they were calculated

    def identity(self, cache: Cache, hasher: Hasher) -> dict[str, Any]:
        """As plain data. It reads every byte of the weights."""
        scales = {"kv_scales": sorted((layer, *by) for layer, by in self.scales.items())} if self.scales else {}
        facts = [[p.name, {k: v for k, v in p.facts.items() if k not in WITHOUT_BITS}] for p in self.providers]
        return {
            "form": FORM,
            "vtcore": __version__,
            "weights": weights_digest(self.checkpoint.files),
            "config": self.checkpoint.config,
            "computed": {"numerics": self.numerics, "dtype": self.dtype, "context": self.context, "providers": facts} | scales,
            "block_size": cache.page,
            "layout": layout(cache),
            "groups": rules(cache),
            "keys": [hasher.algorithm, hasher.first.hex()],
        }


def make_below(maker: Maker, cache: Cache, caching: CacheConfig, offload: OffloadConfig, events: KVEventsConfig | None) -> Below:
    """Raises ArgumentError where a directory or an address can't be used, or a package is missing."""
    log = None if events is None else EventLog(cache.groups, caching.unit)
    rows = Rows(cache)
    sizes = {group: rows.nbytes(group) for group in cache.groups}
    tiers = _tiers(maker, cache, caching, offload, sizes)
    publisher = None if events is None else Publisher(events)
    return Below(Offload(rows, tiers, log) if tiers else None, log, publisher)


def _tiers(maker: Maker, cache: Cache, caching: CacheConfig, offload: OffloadConfig, sizes: Mapping[str, int]) -> list[Tier]:
    tiers, largest = list[Tier](), max(sizes.values(), default=0)
    for name, room, there in (
        ("kv_offloading_size", offload.host_bytes, offload.kv_offloading_size),
        ("kv_offloading_dir_size", offload.disk_bytes, offload.kv_offloading_dir),
    ):
        if there is not None and room < largest:
            raise ArgumentError(f"{name} is {room} bytes; a page of this model takes {largest}: raise it, or lower block_size")
    if offload.kv_offloading_size is not None:
        tiers.append(HostTier(offload.host_bytes, offload.kv_offloading_policy or "lru"))
    if (directory := offload.directory) is not None:
        identity = maker.identity(cache, Hasher(caching.prefix_caching_hash_algo))
        tiers.append(DiskTier(directory, offload.disk_bytes, identity, sizes))
    return tiers
