"""The parts of an engine, put together around one checkpoint. Memory is summed up, and refused, before any is allocated."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from vtcore import tensor
from vtcore.dispatch import Dispatcher
from vtcore.engine import Engine
from vtcore.errors import ArgumentError
from vtcore.formats.checkpoint import Checkpoint
from vtcore.intake import Intake
from vtcore.kv_scales import calculated
from vtcore.kvcache.budget import Budget
from vtcore.kvcache.cache import Cache, Paged, Spec, page_bytes
from vtcore.kvcache.codes import scales_count
from vtcore.kvcache.config import CacheConfig
from vtcore.kvcache.events.config import KVEventsConfig, events_config
from vtcore.kvcache.hashing import seeded
from vtcore.kvcache.manager import KVCacheManager
from vtcore.kvcache.offload.config import OffloadConfig, Size
from vtcore.memory_plan import MemoryPlan, Needs, memory_limit, plan_memory
from vtcore.models.decoder import Decoder
from vtcore.models.facts import Survey
from vtcore.models.load import load_model
from vtcore.numerics import check_fast
from vtcore.offloading import Maker, make_below
from vtcore.op import Op
from vtcore.plans import Plans
from vtcore.provider import Provider
from vtcore.providers import ProviderOptions, chain
from vtcore.quant.blocks import FORMATS
from vtcore.rounding import Rounding, dtype_of, rounded_weight
from vtcore.runner import Runner
from vtcore.scheduler.config import SchedulerConfig
from vtcore.scheduler.policies import POLICIES
from vtcore.scheduler.scheduler import Scheduler
from vtcore.tensor import Tensor
from vtcore.text.load import end_ids
from vtcore.text.tokenizer import Tokenizer
from vtcore.wheels import Progress, silent

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


@dataclass(frozen=True)
class Assembled:
    """An engine, and what it is made of."""

    engine: Engine
    model: Decoder
    dispatcher: Dispatcher
    plan: MemoryPlan


def assemble(checkpoint: Checkpoint, options: Options, tokenizer: Tokenizer | None, progress: Progress = silent) -> Assembled:
    """Build it. Without a tokenizer prompts and outputs are token ids. Raises OutOfMemoryError with the sum where it is over the limit."""
    dtype = dtype_of(options.dtype)
    wrap = tensor.of if dtype is None else rounded_weight(dtype)
    named = {n: getattr(options, n) for n in ("numerics", "max_model_len", "kv_cache_dtype")}
    model = load_model(checkpoint, wrap=wrap, **named)
    config, providers = scheduler_config(model, options), find_providers(options)
    try:
        check_fast(options.numerics, survey_of(model).bytes_by_format, providers)
        return _around(checkpoint, model, config, providers, options, tokenizer, progress)
    except BaseException:
        for provider in providers:
            provider.close()
        raise


def _around(
    checkpoint: Checkpoint,
    model: Decoder,
    config: SchedulerConfig,
    providers: list[Provider],
    options: Options,
    tokenizer: Tokenizer | None,
    progress: Progress,
) -> Assembled:
    dtype = dtype_of(options.dtype)
    needs = needs_of(model, providers, dtype, options.capture)
    options.suits(model.specs().values())
    plan = plan_memory(needs, model.specs(), config, options.cache, limit_of(providers, options.memory_limit), options.offload.host_bytes)
    if plan.streamed:
        model.streamed = True
        model.weights.notes[plan.slowly] = None
    else:
        prepare(model, providers, needs.weights, progress)
    dispatcher = Dispatcher(providers, strict=options.strict)
    forward = dispatcher if dtype is None else Rounding(dispatcher, dtype)
    if options.calculate_kv_scales:
        model.kept = calculated(model, forward, dispatcher, vocab_size(model), partial(page_order, providers))
    cache = Cache(model.specs(), plan.pages, options.block_size, needs.cache_dtype, layout=partial(page_order, providers))
    budget = None
    if plan.shared:
        cache.sparse()
        budget = Budget(plan.shared, page_bytes(cache.specs, cache.page, cache.dtype), cache.give_back)
    plans = Plans(dispatcher if needs.captures and not plan.streamed else None, plan.captured)
    scales = model.kept.scales if options.calculate_kv_scales else {}  # those of a checkpoint are told by its weights
    maker = Maker(checkpoint, options.numerics, options.dtype, config.max_model_len, providers, scales)
    below = make_below(maker, cache, options.cache, options.offload, options.events)
    kv = KVCacheManager(cache.groups, cache.pages, options.cache, below, budget)
    intake = Intake(vocab_size(model), config, kv, tokenizer, end_ids(checkpoint, tokenizer), model.rope_grows)
    return Assembled(Engine(Runner(model, cache, kv, plans), Scheduler(config, kv), intake, forward, dispatcher), model, dispatcher, plan)


def prepare(model: Decoder, providers: Sequence[Provider], nbytes: int, progress: Progress) -> None:
    """Let each provider repack each weight."""
    done = 0
    for op, weight in model.uses():
        for provider in providers:
            provider.prepare(op, weight)
            if provider.takes(op, weight):
                break
        done = min(done + weight.nbytes, nbytes)
        progress("preparing weights", done, nbytes)


def find_providers(options: Options) -> list[Provider]:
    """The chain, in which whatever was asked for has an effect."""
    wanted = ProviderOptions(threads=options.threads, cascade=not options.disable_cascade_attn, numerics=options.numerics)
    providers = chain(options.providers, wanted)
    names = ", ".join(p.name for p in providers)
    if names == "null":
        raise ArgumentError("provider null computes shapes and no values: no token could come of it")
    if options.threads is not None and not any("threads" in p.facts for p in providers):
        raise ArgumentError(f"threads is {options.threads}, and no provider of {names} computes with threads; leave it away")
    if options.disable_cascade_attn and not any("cascade attention" in p.facts for p in providers):
        raise ArgumentError(f"disable_cascade_attn has no effect: no provider of {names} has cascade attention; leave it away")
    return providers


def scheduler_config(model: Decoder, options: Options) -> SchedulerConfig:
    """The limits of a step for this model."""
    longest, c = options.max_model_len, model.config
    if longest is not None and longest > c.context:
        raise ArgumentError(f"max_model_len is {longest}; this checkpoint is made for sequences of up to {c.context} tokens")
    return options.scheduler(c.max_model_len)


def needs_of(model: Decoder, providers: Sequence[Provider], dtype: np.dtype[Any] | None, capture: bool = True) -> Needs:
    """Bytes from headers and shapes. What a provider repacks is counted as large as the weights that it gets are."""
    seen = survey_of(model)
    weights = sum(n if dtype is None else _values(f, n) * dtype.itemsize for f, n in seen.bytes_by_format.items())
    repacked = math.ceil(weights * _repacked(seen, providers))
    captures = capture and dtype is None and any(p.records for p in providers)
    kept = "float16" if model.weights.numerics == "fast" else "float32"  # as llama.cpp keeps keys and values
    largest = -(-weights * seen.largest // max(1, seen.weight_bytes))
    gives_back = all(p.memory.gives_back for p in providers)
    return Needs(weights, repacked, seen.token_bytes, vocab_size(model), captures, kept, largest, gives_back=gives_back)


def _repacked(seen: Survey, providers: Sequence[Provider]) -> Fraction:
    """The part of the weights, by bytes, that a provider which repacks gets: not those that one before it takes as they are."""
    nbytes = {weight.storage: weight.nbytes for _, weight in seen.seen}
    got = {weight.storage: weight.nbytes for op, weight in seen.seen if _gets(op, weight, providers)}
    return Fraction(sum(got.values()), max(1, sum(nbytes.values())))


def _gets(op: Op, weight: Tensor, providers: Sequence[Provider]) -> bool:
    first = next((p for p in providers if p.repacks or p.takes(op, weight)), None)
    return first is not None and first.repacks


def limit_of(providers: Sequence[Provider], limit: int | str | None) -> int | None:
    """Bytes that all may take: what the caller allows, or the machine has, and what each provider's own memory holds."""
    return min((n for n in (memory_limit(limit), *(p.memory.capacity for p in providers)) if n is not None), default=None)


def page_order(providers: Sequence[Provider], name: str, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """How the axes of a cache array lie in memory: as the first provider that cares wants it."""
    return next((order for p in providers if (order := p.page_order(name, shape)) is not None), None)


def survey_of(model: Decoder) -> Survey:
    """What loading found out from headers."""
    assert model.survey is not None, "a model that was loaded has been surveyed"
    return model.survey


def _values(format_: str, nbytes: int) -> int:
    if format_ in FORMATS:
        return nbytes // FORMATS[format_].nbytes * FORMATS[format_].block
    return nbytes // np.dtype(format_).itemsize


def vocab_size(model: Decoder) -> int:
    """How many ids the embedding has rows for."""
    table = model.weights.tensors.get(model.dialect.find("embed_tokens", model.dialect.top).path + ".weight")
    return model.config.vocab if table is None else int(table.shape[0])
