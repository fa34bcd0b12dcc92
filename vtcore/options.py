"""How a model is run: every option, and which of them can have no effect beside the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from vtcore.errors import ArgumentError
from vtcore.kvcache.cache import Paged, Spec
from vtcore.kvcache.codes import scales_count
from vtcore.kvcache.config import CacheConfig
from vtcore.kvcache.events.config import KVEventsConfig, events_config
from vtcore.kvcache.hashing import seeded
from vtcore.kvcache.offload.config import OffloadConfig, Size
from vtcore.rounding import dtype_of
from vtcore.scheduler.config import SchedulerConfig
from vtcore.scheduler.policies import POLICIES

MOST = {"max_model_len": 2**31 - 1, "threads": 1024}


@dataclass(frozen=True)
class Options:
    """How a model is run. Each one has an effect; where it can't have any, building raises ArgumentError. `strict`, and `capture` False,
    are demands: they are met as well where nothing would have fallen back, or been replayed."""

    numerics: str = "exact"
    providers: str | Sequence[str] | None = None
    dtype: str | None = None
    max_model_len: int | None = None
    threads: int | None = None
    strict: bool = False
    capture: bool = True
    block_size: int = CacheConfig.block_size
    max_num_seqs: int = SchedulerConfig.max_num_seqs
    max_num_batched_tokens: int = SchedulerConfig.max_num_batched_tokens
    memory_limit: int | str | None = None
    enable_prefix_caching: bool = True
    prefix_caching_hash_algo: str = "sha256"
    prefix_match_unit: int | None = None
    mamba_block_size: int | None = None
    num_gpu_blocks_override: int | None = None
    kv_cache_dtype: str = "auto"
    calculate_kv_scales: bool = False
    scheduling_policy: str = "fcfs"
    long_prefill_token_threshold: int = 0
    max_num_partial_prefills: int = 1
    max_long_partial_prefills: int = 1
    max_num_queued_reqs: int | None = None
    max_num_queued_tokens: int | None = None
    priority_preemption_threshold: int | None = None
    async_scheduling: bool = False
    kv_offloading_size: Size = None
    kv_offloading_policy: str | None = None
    kv_offloading_dir: str | Path | None = None
    kv_offloading_dir_size: Size = None
    kv_events_config: Mapping[str, Any] | None = None
    disable_cascade_attn: bool = False

    def __post_init__(self) -> None:
        for name in ("max_model_len", "threads"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST[name]):
                raise ArgumentError(f"{name} is {value!r}; it must be an integer from 1 to {MOST[name]}")
        for name in ("strict", "capture", "disable_cascade_attn", "calculate_kv_scales"):
            if not isinstance(getattr(self, name), bool):
                raise ArgumentError(f"{name} is {getattr(self, name)!r}; it must be True or False")
        if self.numerics == "fast" and dtype_of(self.dtype) is not None:
            raise ArgumentError(
                f"numerics 'fast' with dtype {self.dtype}: rounding follows engines that compute on dense weights; choose one"
            )
        scheduler = self.scheduler(self.max_model_len or MOST["max_model_len"])
        if POLICIES[scheduler.scheduling_policy].looks and not self.enable_prefix_caching:
            raise ArgumentError(f"scheduling_policy {self.scheduling_policy!r} has no effect without prefix caching: it asks the cache")
        self._nothing_shared()
        if self.calculate_kv_scales and not scales_count(self.kv_cache_dtype):
            raise ArgumentError(
                f"calculate_kv_scales has no effect with kv_cache_dtype {self.kv_cache_dtype!r}: only 8-bit floats have scales of a layer"
            )
        _ = self.cache, self.offload, self.events  # each checks its own
        for name in ("kv_offloading_size", "kv_offloading_dir", "kv_events_config"):
            if getattr(self, name) is not None and not self.enable_prefix_caching:
                raise ArgumentError(f"{name} has no effect without prefix caching: leave enable_prefix_caching True")
        if self.kv_offloading_dir is not None and self.prefix_caching_hash_algo.startswith("xxhash") and not seeded():
            raise ArgumentError(
                f"kv_offloading_dir has no effect with prefix_caching_hash_algo {self.prefix_caching_hash_algo!r}: its keys start from "
                "random bytes in each process, unless PYTHONHASHSEED is set"
            )
        if self.async_scheduling is True and self.offload.some:
            raise ArgumentError(
                "async_scheduling has no effect with kv_offloading_size or kv_offloading_dir: pages are copied while a step is planned, "
                "which therefore waits for the one before; leave one of them away"
            )

    def _nothing_shared(self) -> None:
        """Cascade attention needs two requests in a step that hold the same pages."""
        lacks = {"without prefix caching": not self.enable_prefix_caching, "with max_num_seqs 1": self.max_num_seqs == 1}
        for where in (w for w, lacking in lacks.items() if self.disable_cascade_attn and lacking):
            raise ArgumentError(f"disable_cascade_attn has no effect {where}: no two requests of a step share pages; leave it away")

    def suits(self, specs: Collection[Spec]) -> None:
        """Raises ArgumentError for an option that has no effect on what these caches' layers do."""
        self.cache.suits(specs)
        if self.disable_cascade_attn and not any(isinstance(s, Paged) and s.heads for s in specs):
            raise ArgumentError(
                "disable_cascade_attn has no effect: no layer of this model keeps keys and values of heads, which alone are seen together"
            )

    @property
    def cache(self) -> CacheConfig:
        """Those of the cache."""
        return CacheConfig(**self._of(CacheConfig))

    @property
    def offload(self) -> OffloadConfig:
        """Those of the tiers below the cache."""
        return OffloadConfig(**self._of(OffloadConfig))

    @property
    def events(self) -> KVEventsConfig | None:
        """Those of the cache's events; None where none are published."""
        return events_config(self.kv_events_config)

    def scheduler(self, max_model_len: int) -> SchedulerConfig:
        """Those of a step, for sequences of at most so many tokens."""
        return SchedulerConfig(**self._of(SchedulerConfig) | {"max_model_len": max_model_len})

    def _of(self, config: type[CacheConfig] | type[OffloadConfig] | type[SchedulerConfig]) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(config)}


SERVING = tuple(f.name for f in fields(Options)[11:])  # those of the cache and the scheduler that few need
