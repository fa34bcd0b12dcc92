"""The sum of what a model will need, from headers and shapes alone: made, shown and refused before anything is allocated."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from vtcore import system_pages
from vtcore.available import available_memory
from vtcore.errors import ArgumentError, OutOfMemoryError
from vtcore.kvcache.cache import Key, Paged, Spec, page_bytes, whole
from vtcore.kvcache.codes import uncoded
from vtcore.kvcache.config import CacheConfig
from vtcore.kvcache.manager import rule_of
from vtcore.plans import MOST_BYTES
from vtcore.scheduler.config import SchedulerConfig

UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
RESERVE = 0.1  # of what is available, left to Python, libraries and others where the caller names no limit
CAPTURED = 16  # recorded steps get this part of a limit at most
SIZES = ("max_model_len", "max_num_seqs", "max_num_batched_tokens")  # options that a refusal names values of
LOGITS = 4  # arrays of the logits' size that a step of sampling holds at once


@dataclass(frozen=True)
class Needs:
    """What a model needs, whatever the cache: bytes. `repacked`: the providers' own forms of weights, made at load. `captures`: whether
    steps are recorded. `cache_dtype`: of keys and values. `largest`: weights of the largest layer; 0: they can't be read layer by layer.
    `streamed`: weights that are read anew in each step, of which then only the largest layer counts; 0: they all stay.
    `gives_back`: whether what holds the cache can give back the memory of a page, for one of another group."""

    weights: int
    repacked: int
    token_bytes: int  # of results alive at once, for each token of a step
    vocab_size: int
    captures: bool = False
    cache_dtype: str = "float32"
    largest: int = 0
    streamed: int = 0
    gives_back: bool = False

    def layer_by_layer(self) -> Needs:
        """The same where no more than one layer's weights are in memory. No step is recorded then: it would hold on to them all."""
        repacked = self.largest if self.repacked else 0
        return replace(self, weights=self.largest, repacked=repacked, captures=False, streamed=self.weights)


@dataclass(frozen=True)
class MemoryPlan:
    """The parts of the sum in bytes, the pages that the cache gets, and the limit (None: the system doesn't say what it has)."""

    weights: int
    repacked: int
    workspace: int
    captured: int  # what recorded steps may keep, all together
    kv_cache: int
    pages: Mapping[str, int]  # by cache group, the page of zeros included; where bytes are shared, as many as it may have at most
    cache: CacheConfig
    config: SchedulerConfig
    limit: int | None
    cache_dtype: str = "float32"
    streamed: int = 0  # weights that each step reads anew; 0: all stay in memory
    offloaded: int = 0  # copies of pages outside the cache
    sequences: float = 0.0  # of max_model_len that the cache holds at once
    saved: int = 0  # bytes that keys and values take less in 8 bits than in cache_dtype
    shared: int = 0  # bytes of kv_cache that all groups take pages from; 0: each has its own

    @property
    def block_size(self) -> int:
        """Entries a page."""
        return self.cache.block_size

    @property
    def total(self) -> int:
        return self.weights + self.repacked + self.workspace + self.captured + self.kv_cache + self.offloaded

    @property
    def slowly(self) -> str:
        """What to tell of weights that don't stay."""
        return (
            f"the weights take {gib(self.streamed)}, and may not stay in {gib(self.limit or 0)}: each step reads and repacks them layer by "
            "layer, and takes as long as that"
        )

    def json(self) -> dict[str, Any]:
        """As plain data."""
        return {**asdict(self), "pages": dict(self.pages), "total": self.total}

    def parts(self) -> Iterator[tuple[int, str]]:
        """Each part with what it is, and the options that it follows from."""
        c = self.config
        which = f"of the largest layer: one at a time, in each step, {gib(self.streamed)} in all" if self.streamed else ""
        yield self.weights, f"weights {which}" if which else "weights, as stored"
        yield self.repacked, f"weights repacked by the providers{', of that layer' * bool(which)}"
        yield self.workspace, f"workspace of a step (max_num_batched_tokens {c.max_num_batched_tokens}, max_num_seqs {c.max_num_seqs})"
        yield self.captured, "recorded steps"
        blocks = self.cache.num_gpu_blocks_override
        size = f"max_model_len {c.max_model_len}, max_num_seqs {c.max_num_seqs}" if blocks is None else f"num_gpu_blocks_override {blocks}"
        cache = f"{size}, block_size {self.cache.block_size}: {self.sequences:.1f} sequences of full length at once"
        cache += f", in bytes that {len(self.pages)} groups of layers share" if self.shared else ""
        coded = f"{self.cache.kv_cache_dtype}, {gib(self.saved)} less than in {self.cache_dtype}" if self.saved else self.cache_dtype
        yield self.kv_cache, f"KV cache in {coded} ({cache})"
        if self.offloaded:
            yield self.offloaded, "copies of its pages (kv_offloading_size)"

    def __str__(self) -> str:
        limit = "no limit is known" if self.limit is None else f"of {gib(self.limit)} that it may have"
        return "\n".join(f"{gib(n):>10s}  {what}" for n, what in (*self.parts(), (self.total, f"in all, {limit}")))


def plan_memory(
    needs: Needs, specs: Mapping[Key, Spec], config: SchedulerConfig, cache: CacheConfig, limit: int | str | None = None, offloaded: int = 0
) -> MemoryPlan:
    """Give the cache room for max_num_seqs sequences of max_model_len, or for as many as fit the limit, but at least for one; or the
    number of pages that is asked for.

    Where not even weights and their repacked forms fit, they are planned to be read layer by layer in each step.
    Raises OutOfMemoryError with the whole sum, and which option lowers which part, where not even that fits."""
    most = memory_limit(limit)
    if most is not None and needs.largest and needs.weights + needs.repacked > most:
        needs = needs.layer_by_layer()
    workspace = _workspace(needs, specs, config)
    captured = 0 if not needs.captures else MOST_BYTES if most is None else min(MOST_BYTES, most // CAPTURED)
    fixed = needs.weights + needs.repacked + workspace + captured + offloaded
    page = page_bytes(specs, cache.block_size, needs.cache_dtype)
    pages = _pages(page, specs, config, cache, None if most is None else most - fixed - sum(page.values()))
    kv = sum(page[g] * n for g, n in pages.items())
    plain = page_bytes({key: uncoded(spec) for key, spec in specs.items()}, cache.block_size, needs.cache_dtype)
    each = sequence_pages(specs, config, cache)
    sequences = min(((pages[g] - 1) / n for g, n in each.items()), default=float(config.max_num_seqs))
    saved = sum(plain[g] * n for g, n in pages.items()) - kv
    shared = kv - sum(page.values())
    numbers = _numbers(page, specs, config, cache, needs, shared)
    if numbers is None or numbers == pages:
        shared, numbers = 0, pages
    else:
        sequences = shared / sum(page[g] * n for g, n in each.items())
    parts = (needs.weights, needs.repacked, workspace, captured, kv)
    plan = MemoryPlan(*parts, numbers, cache, config, most, needs.cache_dtype, needs.streamed, offloaded, sequences, saved, shared)
    if most is not None and plan.total > most:
        raise OutOfMemoryError(_refusal(plan, specs, needs))
    return plan


def _workspace(needs: Needs, specs: Mapping[Key, Spec], config: SchedulerConfig) -> int:
    """Bytes of a step's results. All sequences together may have fewer tokens, and their encoders read fewer, than a step has room for."""
    encoded = max((spec.longest for spec in specs.values() if isinstance(spec, Paged)), default=0)
    tokens = min(config.max_num_batched_tokens, config.max_num_seqs * (config.max_model_len + encoded))
    return needs.token_bytes * tokens + LOGITS * 4 * needs.vocab_size * config.max_logits_rows


def _pages(
    page: Mapping[str, int], specs: Mapping[Key, Spec], config: SchedulerConfig, cache: CacheConfig, room: int | None
) -> dict[str, int]:
    """By cache group, with the page of zeros. `room`: bytes for all others together; None: no limit."""
    least, most = sequence_pages(specs, config, cache), sequence_pages(specs, config, cache, wanted=True)
    if (blocks := cache.num_gpu_blocks_override) is not None and least:
        longest = max(least.values())
        shares = {g: min(blocks - 1, math.ceil(n * (blocks - 1) / longest)) for g, n in most.items()}
        return {g: 1 + max(1, n, _alone(g, specs, config, cache)) for g, n in shares.items()}
    more = {g: most[g] * config.max_num_seqs - n for g, n in least.items()}
    whole = sum(page[g] * n for g, n in more.items())
    spare = whole if room is None else min(whole, max(0, room - sum(page[g] * n for g, n in least.items())))
    return {g: 1 + n + (more[g] * spare // whole if whole else 0) for g, n in least.items()}


def _numbers(
    page: Mapping[str, int], specs: Mapping[Key, Spec], config: SchedulerConfig, cache: CacheConfig, needs: Needs, shared: int
) -> dict[str, int] | None:
    """By cache group, the most pages that it may have of bytes that all share: those of the declared workload. None where they can't
    share: what is given back, the system counts in its own pages."""
    parts = whole(specs, cache.block_size, needs.cache_dtype, system_pages.SIZE)
    if len(page) < 2 or not needs.gives_back or not parts or cache.num_gpu_blocks_override is not None:
        return None
    most = sequence_pages(specs, config, cache, wanted=True)
    return {g: 1 + min(most[g] * config.max_num_seqs, shared // page[g]) for g in most}


def _alone(group: str, specs: Mapping[Key, Spec], config: SchedulerConfig, cache: CacheConfig) -> int:
    """Of the pages that num_gpu_blocks_override gives, how many in this group one sequence takes that fills them: so that it can run, and
    another begin where it was."""
    pages = (cache.num_gpu_blocks_override or 1) - 1
    tokens = min(config.max_model_len, pages * cache.block_size)
    rule = rule_of(next(spec for spec in specs.values() if spec.group == group), cache)
    return min(pages, rule.wanted(tokens, config.max_num_batched_tokens))


def sequence_pages(specs: Mapping[Key, Spec], config: SchedulerConfig, cache: CacheConfig, *, wanted: bool = False) -> dict[str, int]:
    """By cache group, the most pages that one sequence of max_model_len holds at once; `wanted`: with what is worth keeping besides."""
    rules = {spec.group: rule_of(spec, cache) for spec in specs.values()}
    tokens, step = config.max_model_len, config.max_num_batched_tokens
    return {g: rule.wanted(tokens, step) if wanted else rule.most(tokens, step) for g, rule in rules.items()}


def memory_limit(limit: int | str | None) -> int | None:
    """Bytes from a number or a text such as "4GiB"; None: what is available now, less a reserve."""
    if limit is None:
        free = available_memory()
        return None if free is None else int(free * (1 - RESERVE))
    if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0:
        return limit
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", limit.strip().lower()) if isinstance(limit, str) else None
    if match is None or not float(match[1]):
        raise ArgumentError(f'memory_limit is {limit!r}; it must be a positive number of bytes, or a text such as "800MiB" or "4GiB"')
    return int(float(match[1]) * UNITS[match[2]])


def gib(count: int) -> str:
    """Bytes for people."""
    if count >= 1 << 30:
        return f"{count / (1 << 30):.2f} GiB"
    return f"{count / (1 << 20):.1f} MiB" if count >= 1 << 20 else f"{count / (1 << 10):.1f} KiB"


def _refusal(plan: MemoryPlan, specs: Mapping[Key, Spec], needs: Needs) -> str:
    sizes = dict(zip(SIZES, (_largest(plan, specs, needs, name) for name in SIZES), strict=True))
    longest = sizes.pop("max_model_len")
    others = ", ".join(f"the largest {name} is {n}" for name, n in sizes.items() if n)
    hint = f"The largest max_model_len that fits is {longest}" if longest else "No max_model_len is small enough"
    hint += f"; at this max_model_len, {others}" if others else "; at this max_model_len no max_num_seqs and no max_num_batched_tokens fits"
    blocks = plan.cache.num_gpu_blocks_override
    what = f"for one sequence of {plan.config.max_model_len} tokens" if blocks is None else f"of num_gpu_blocks_override {blocks}"
    if blocks is not None:
        hint = "Lower num_gpu_blocks_override, or leave it to the workload"
    terms = " + ".join(f"{gib(n)} {what}" for n, what in plan.parts())
    copies = "kv_offloading_size for the copies, " if plan.offloaded else ""
    return (
        f"with a cache {what} the model needs {gib(plan.total)}, and may have "
        f"{gib(plan.limit or 0)}: {terms}. {hint}. Lower max_model_len for the cache, max_num_batched_tokens or max_num_seqs for the "
        f"workspace, {copies}choose a smaller or more strongly quantised checkpoint for the weights, or raise memory_limit"
    )


def _largest(plan: MemoryPlan, specs: Mapping[Key, Spec], needs: Needs, name: str) -> int:
    """The largest value of one of SIZES, up to the one that was asked for, with which a cache for one sequence fits; 0: none."""
    asked = {n: getattr(plan.config, n) for n in SIZES}
    page, rest = page_bytes(specs, plan.cache.block_size, plan.cache_dtype), plan.total - plan.workspace - plan.kv_cache

    def too_large(value: int) -> bool:
        config = SchedulerConfig(**asked | {name: value})
        kv = sum(page[g] * (1 + n) for g, n in sequence_pages(specs, config, plan.cache).items())
        return rest + _workspace(needs, specs, config) + kv > (plan.limit or 0)

    values = range(plan.config.max_num_seqs if name == "max_num_batched_tokens" else 1, asked[name] + 1)
    fit = bisect_left(values, True, key=too_large)
    return values[fit - 1] if fit else 0
