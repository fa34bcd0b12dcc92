"""How the cache is cut into pages, and what of it is found again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from vtcore.errors import ArgumentError
from vtcore.kvcache.cache import Spec, State
from vtcore.kvcache.codes import check
from vtcore.kvcache.hashing import ALGORITHMS

STATE_BLOCKS = 8  # a state is kept every so many blocks, where nothing else is said
STATES = 2  # places a sequence for states that are kept, besides its own
DEFAULT = ALGORITHMS[0]


@dataclass(frozen=True)
class CacheConfig:
    """vLLM's names. block_size: entries a page. prefix_match_unit: what is found again is a multiple of it (None: block_size).
    mamba_block_size: tokens between two states that are kept (None: 8 blocks). num_gpu_blocks_override: pages of the group that keeps
    most, the page of zeros among them, on whatever device they are (None: what the declared workload takes). kv_cache_dtype: how
    keys and values are kept, see codes.py."""

    block_size: int = 32
    enable_prefix_caching: bool = True
    prefix_caching_hash_algo: str = DEFAULT
    prefix_match_unit: int | None = None
    mamba_block_size: int | None = None
    num_gpu_blocks_override: int | None = None
    kv_cache_dtype: str = "auto"

    def __post_init__(self) -> None:
        if not isinstance(self.enable_prefix_caching, bool):
            raise ArgumentError(f"enable_prefix_caching is {self.enable_prefix_caching!r}; it must be True or False")
        for name, least in (("block_size", 1), ("prefix_match_unit", 1), ("mamba_block_size", 1), ("num_gpu_blocks_override", 2)):
            value = getattr(self, name)
            absent = value is None and name != "block_size"
            if not absent and (isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 1 << 31):
                raise ArgumentError(f"{name} is {value!r}; it must be an integer from {least} to {1 << 31}")
        check(self.kv_cache_dtype)
        if self.prefix_caching_hash_algo not in ALGORITHMS:
            raise ArgumentError(f"prefix_caching_hash_algo is {self.prefix_caching_hash_algo!r}; choose one of {', '.join(ALGORITHMS)}")
        self._without_effect()
        if self.block_size % self.unit:
            raise ArgumentError(f"prefix_match_unit is {self.unit}; it must divide block_size, which is {self.block_size}")
        if self.state_every % self.unit:
            raise ArgumentError(f"mamba_block_size is {self.state_every}; it must be a multiple of the prefix-match unit, {self.unit}")

    def _without_effect(self) -> None:
        if self.enable_prefix_caching:
            return
        given = {"prefix_match_unit": self.prefix_match_unit, "mamba_block_size": self.mamba_block_size}
        algorithm = self.prefix_caching_hash_algo
        for name, value in (given | {"prefix_caching_hash_algo": None if algorithm == DEFAULT else algorithm}).items():
            if value is not None:
                raise ArgumentError(f"{name} is {value} and has no effect without prefix caching: leave enable_prefix_caching True")

    def suits(self, specs: Iterable[Spec]) -> None:
        """Raises ArgumentError for an option that has no effect on such caches."""
        if self.mamba_block_size is not None and not any(isinstance(s, State) for s in specs):
            raise ArgumentError(f"mamba_block_size is {self.mamba_block_size} and has no effect: no layer of this model keeps a state")

    @property
    def unit(self) -> int:
        """Tokens."""
        return self.prefix_match_unit or self.block_size

    @property
    def state_every(self) -> int:
        """Tokens."""
        return self.mamba_block_size or STATE_BLOCKS * self.block_size
