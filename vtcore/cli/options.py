"""Options that several commands share."""

from __future__ import annotations

import argparse
import math
from typing import Any


def debug(parser: argparse.ArgumentParser) -> None:
    """--debug, before or after the command's name."""
    parser.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help="show the traceback of an error")


def model(parser: argparse.ArgumentParser) -> None:
    """MODEL, in each of its forms."""
    parser.add_argument("model", metavar="MODEL", help="a directory, a .gguf file, hf:org/repo[:file], or a name such as smollm2-135m")


def engine(parser: argparse.ArgumentParser) -> None:
    """How a model is run."""
    group = parser.add_argument_group("engine")
    group.add_argument("--numerics", choices=["exact", "fast"], default="exact", help="fast: 8-bit activations on quantised weights")
    group.add_argument("--providers", metavar="A,B", help="who may run ops, first choice first: names, or paths of .py files")
    group.add_argument("--strict", action="store_true", help="an op that a provider declines is an error, not a fallback")
    group.add_argument("--no-capture", dest="capture", action="store_false", help="run every op by itself, replay no step")
    group.add_argument("--dtype", choices=["float32", "bfloat16", "float16"], help="round where an engine of this dtype rounds")
    group.add_argument("--threads", type=positive, metavar="N", help="threads to compute with (default: all that the process may use)")
    group.add_argument("--max-model-len", type=positive, metavar="N", help="the longest prompt and answer together, in tokens")
    group.add_argument("--memory-limit", metavar="SIZE", help="such as 800M or 4G: weights beyond it are read layer by layer, slowly")


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
    known = ("numerics", "providers", "dtype", "threads", "max_model_len", "max_num_seqs", "memory_limit", "strict", "capture")
    named = {n: getattr(args, n, None) for n in known}
    return {n: v for n, v in named.items() if v is not None}


def positive(text: str) -> int:
    """A whole number from 1."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def number(text: str) -> float:
    """A finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return value
