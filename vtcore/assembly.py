"""The parts of an engine, put together around one checkpoint. Memory is summed up, and refused, before any is allocated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
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
from vtcore.kvcache.cache import Cache, page_bytes
from vtcore.kvcache.manager import KVCacheManager
from vtcore.memory_plan import MemoryPlan, Needs, memory_limit, plan_memory
from vtcore.models.decoder import Decoder
from vtcore.models.facts import Survey
from vtcore.models.load import load_model
from vtcore.numerics import check_fast
from vtcore.offloading import Maker, make_below
from vtcore.op import Op
from vtcore.options import Options
from vtcore.plans import Plans
from vtcore.provider import Provider
from vtcore.providers import ProviderOptions, chain
from vtcore.quant.blocks import FORMATS
from vtcore.rounding import Rounding, dtype_of, rounded_weight
from vtcore.runner import Runner
from vtcore.scheduler.config import SchedulerConfig
from vtcore.scheduler.scheduler import Scheduler
from vtcore.tensor import Tensor
from vtcore.text.load import end_ids
from vtcore.text.tokenizer import Tokenizer
from vtcore.wheels import Progress, silent


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
