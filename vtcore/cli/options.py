"""Options that several commands share."""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NUMBERS = {  # of the cache and the scheduler, by LLM's names
    "max_num_seqs": "sequences at once",
    "max_num_batched_tokens": "tokens of one forward",
    "block_size": "tokens a page of the cache",
    "num_gpu_blocks_override": "pages of the cache, in place of what the workload takes",
    "prefix_match_unit": "tokens, a divisor of the block size: what is found in the cache is a multiple of it",
    "mamba_block_size": "tokens between two states that are kept",
    "long_prefill_token_threshold": "tokens of one prompt in one step, while others are there",
    "max_num_partial_prefills": "prompts that may go over several steps at once",
    "max_long_partial_prefills": "long ones of them",
    "max_num_queued_reqs": "sequences that may wait",
    "max_num_queued_tokens": "tokens of prompts that may wait",
}
ENGINE = (  # what `engine` defines, by LLM's names
    *("numerics", "providers", "dtype", "threads", "max_model_len", "memory_limit", "strict", "capture", *NUMBERS),
    *("enable_prefix_caching", "prefix_caching_hash_algo", "kv_cache_dtype", "disable_cascade_attn", "async_scheduling"),
    "calculate_kv_scales",
    *("scheduling_policy", "priority_preemption_threshold"),
    *("kv_offloading_size", "kv_offloading_policy", "kv_offloading_dir", "kv_offloading_dir_size", "kv_events_config"),
)
ORDERS = (  # these choose among several requests
    *("scheduling_policy", "priority_preemption_threshold", "long_prefill_token_threshold", "disable_cascade_attn"),
    *("max_num_partial_prefills", "max_long_partial_prefills", "max_num_queued_reqs", "max_num_queued_tokens"),
)


def debug(parser: argparse.ArgumentParser) -> None:
    """--debug, before or after the command's name."""
    parser.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help="show the traceback of an error")


def model(parser: argparse.ArgumentParser) -> None:
    """MODEL, in each of its forms."""
    parser.add_argument("model", metavar="MODEL", help="a directory, a .gguf file, hf:org/repo[:file], or a name such as smollm2-135m")


def engine(parser: argparse.ArgumentParser) -> None:
    """How a model is run."""
    group = parser.add_argument_group("engine")
    computing(group)
    group.add_argument("--strict", action="store_true", help="an op that a provider declines is an error, not a fallback")
    group.add_argument("--no-capture", dest="capture", action="store_false", help="run every op by itself, replay no step")
    group.add_argument("--max-model-len", type=positive, metavar="N", help="the longest prompt and answer together, in tokens")
    serving(parser)


def computing(group: Any) -> None:
    """What is computed, by whom, and in how much memory."""
    group.add_argument(
        "--numerics", choices=["exact", "fast"], default="exact", help="fast: 8-bit activations on quantised weights, cuBLASLt on cuda"
    )
    group.add_argument("--providers", metavar="A,B", help="who may run ops, first choice first: names, or paths of .py files")
    group.add_argument("--dtype", choices=["float32", "bfloat16", "float16"], help="round where an engine of this dtype rounds")
    group.add_argument("--threads", type=positive, metavar="N", help="threads to compute with (default: all that the process may use)")
    group.add_argument("--memory-limit", metavar="SIZE", help="such as 800M or 4G: weights beyond it are read layer by layer, slowly")
    group.add_argument("--kv-cache-dtype", metavar="NAME", help="auto (the default), fp8, fp8_e4m3, fp8_e5m2 or int8_per_token_head")


def serving(parser: argparse.ArgumentParser) -> None:
    """The cache and the scheduler: what docs/scheduling.md describes. None stands for the engine's own default."""
    group = parser.add_argument_group("cache and scheduler")
    for name, what in NUMBERS.items():
        group.add_argument("--" + name.replace("_", "-"), type=positive, metavar="N", help=what)
    group.add_argument(
        "--enable-prefix-caching", action=argparse.BooleanOptionalAction, default=None, help="begin from what the cache has of others (on)"
    )
    group.add_argument("--prefix-caching-hash-algo", metavar="NAME", help="sha256 (the default), sha256_cbor, xxhash or xxhash_cbor")
    group.add_argument(
        "--disable-cascade-attn",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="fetch shared pages for each request by itself",
    )
    group.add_argument(
        "--async-scheduling", action=argparse.BooleanOptionalAction, default=None, help="plan the next step while one computes (off)"
    )
    group.add_argument(
        "--calculate-kv-scales",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="scales for --kv-cache-dtype fp8 where the checkpoint has none, from a fixed prompt (off)",
    )
    group.add_argument("--scheduling-policy", metavar="NAME", help="fcfs (the default), priority, lpm or dfs-weight")
    group.add_argument("--kv-offloading-size", metavar="SIZE", help="GiB, or such as 800M: copies of pages beside the cache")
    group.add_argument("--kv-offloading-policy", metavar="NAME", help="which of them goes first: lru (the default) or arc")
    group.add_argument("--kv-offloading-dir", metavar="PATH", help="keep pages as files there, for later processes too")
    group.add_argument("--kv-offloading-dir-size", metavar="SIZE", help="of that directory (default: 10 GiB)")
    group.add_argument("--kv-events-config", type=mapping, metavar="JSON", help="publish what the cache holds, over ZeroMQ")
    group.add_argument("--priority-preemption-threshold", type=whole, metavar="N", help="preempt whoever is behind by more than this")


def one_at_a_time(args: argparse.Namespace) -> None:
    """Raises ArgumentError for an option that has an effect only where several requests meet."""
    from vtcore.errors import ArgumentError

    for name in ORDERS:
        if getattr(args, name) is not None:
            raise ArgumentError(f"--{name.replace('_', '-')} has no effect here: one request at a time has none to share, pass or wait for")


def all_may_wait(args: argparse.Namespace) -> None:
    """Raises ArgumentError for a limit of the queue, where whoever asks has nobody to turn away."""
    from vtcore.errors import ArgumentError

    for name in ("max_num_queued_reqs", "max_num_queued_tokens"):
        if getattr(args, name) is not None:
            raise ArgumentError(
                f"--{name.replace('_', '-')} would leave requests of the file without an answer; here they wait for their turn"
            )


def sampling(parser: argparse.ArgumentParser, max_tokens: int) -> None:
    """How tokens are chosen."""
    group = parser.add_argument_group("sampling")
    group.add_argument("--max-tokens", type=positive, default=max_tokens, metavar="N", help=f"new tokens at most (default {max_tokens})")
    group.add_argument("--temperature", type=number, metavar="T", help="0 (the default): always the likeliest token")
    group.add_argument("--top-p", type=number, metavar="P", help="of the likeliest tokens that hold this much probability")
    group.add_argument("--top-k", type=positive, metavar="K", help="of the K likeliest tokens")
    group.add_argument("--seed", type=int, metavar="N", help="the same seed draws the same tokens")


def engine_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """What `engine` read, as keywords of LLM; options that were not given are left to their defaults."""
    named = {n: getattr(args, n, None) for n in ENGINE}
    return {n: v for n, v in named.items() if v is not None}


def writable(paths: Mapping[str, Path | None]) -> None:
    """Raises ArgumentError for files, by their options, that can't be written: before anything is computed for them."""
    from vtcore.errors import ArgumentError

    given = {n: p for n, p in paths.items() if p is not None}
    for name, path in given.items():
        if not path.parent.is_dir():
            raise ArgumentError(f"--{name} {path}: there is no directory {path.parent}")
        if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
            raise ArgumentError(f"--{name} {path}: it can't be written there; name a file in a directory that you may write to")
    if len({p.absolute() for p in given.values()}) < len(given):
        raise ArgumentError(f"{', '.join('--' + n for n in given)} name one file twice; give each a file of its own")


def positive(text: str) -> int:
    """A whole number from 1."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def mapping(text: str) -> dict[str, Any]:
    """A JSON object."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text!r:.80} is not a JSON object")
    return value


def whole(text: str) -> int:
    """A whole number from 0."""
    return 0 if text == "0" else positive(text)


def number(text: str) -> float:
    """A finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return value
