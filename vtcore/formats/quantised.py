"""Quantised safetensors: tensors that stand for one weight together are given out as that weight, in blocks that ops read.

    mxfp4               X_blocks, X_scales (gpt-oss); X.weight_packed, X.weight_scale (compressed-tensors)
    8-bit floats        X.weight with X.weight_scale_inv or X.weight_scale: one number, one a row, or one a block (DeepSeek: 128 x 128)

A weight is its code times its scale, rounded once to float32; activations stay as they are, whatever the config says of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from vtcore.errors import CheckpointError, ConfigError
from vtcore.formats.checkpoint import Checkpoint
from vtcore.formats.metadata import short
from vtcore.formats.packed import Float8, Microscaled
from vtcore.formats.raw import RawTensor

Tensors = Mapping[str, RawTensor]
WORDS: dict[str, tuple[str, tuple[str, ...]]] = {  # by quant_method: which of its words says more, and what it may be
    "mxfp4": ("", ()),
    "fp8": ("fmt", ("e4m3",)),
    "fbgemm_fp8": ("", ()),
    "compressed-tensors": ("format", ("float-quantized", "mxfp4-pack-quantized")),
    "modelopt": ("quant_algo", ("FP8",)),
}
TEXT = ("text_config", "llm_config")  # of a checkpoint for several media; some say it there
E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
BLOCK = [128, 128]  # where the config doesn't say
SCALES = ("_scale_inv", "_scale")
ASIDE = re.compile(r"\.(input_scale|activation_scale|input_scale_ub|k_scale|v_scale|kv_scale|output_scale)$")  # of activations and caches
KEPT = re.compile(r"\.((k|v|kv)_scale|(k|v)_proj\.output_scale)$")


def unpacked(checkpoint: Checkpoint) -> tuple[Checkpoint, list[str]]:
    """A checkpoint with its weights as one tensor each, and what to say of it; one that isn't quantised as it is.

    Raises ConfigError for a kind of quantisation that isn't read, CheckpointError where tensors don't fit together."""
    levels: list[Any] = [checkpoint.config, *map(checkpoint.config.get, TEXT)]
    about = next((found for p in levels if isinstance(p, dict) and (found := p.get("quantization_config")) is not None), None)
    if about is None or checkpoint.kind == "gguf":
        return checkpoint, []
    file = checkpoint.directory / "config.json"
    if not isinstance(about, dict):
        raise ConfigError(f"{file}: quantization_config is {short(about)}; it must be an object")
    if problem := unread(about):
        raise ConfigError(f"{file}: quantization_config.{problem}")
    tensors = dict(checkpoint.tensors)
    aside = [n for n in tensors if ASIDE.search(n)]
    for name in aside:
        del tensors[name]
    for made, parts in [*_microscaled(tensors), *_floats(tensors, _block(about))]:
        for part in parts:
            del tensors[part]
        tensors[made.name] = made
    kept = [n for n in aside if KEPT.search(n)]
    others = len(aside) - len(kept)
    notes = [f"{others} scales of activations are not read: only weights are quantised here"] if others else []
    notes += [f"{len(kept)} scales of keys and values count where kv_cache_dtype is of 8-bit floats"] if kept else []
    return replace(checkpoint, tensors=tensors), notes


def unread(about: Mapping[str, Any]) -> str | None:
    """What of a quantization_config is not read, if anything, and what is."""
    method = about.get("quant_method")
    if not isinstance(method, str) or method not in WORDS:
        return f"quant_method is {short(method)}; what is read is {', '.join(WORDS)}, dense weights, and GGUF"
    key, allowed = WORDS[method]
    said = about.get(key)
    if key and said not in (*allowed, *([None] if method == "fp8" else [])):
        return f"{key} is {short(said)}; of {method} what is read is {', '.join(allowed)}"
    return None


def _block(about: Mapping[str, Any]) -> tuple[int, int]:
    """Rows and columns that share a scale."""
    groups = about.get("config_groups")
    weights = [g.get("weights") for g in groups.values() if isinstance(g, dict)] if isinstance(groups, dict) else []
    said = [w.get("block_structure") for w in weights if isinstance(w, dict)]
    size = about.get("weight_block_size") or next(filter(None, said), BLOCK)
    if not isinstance(size, list) or len(size) != 2 or not all(type(n) is int and 0 < n < 1 << 20 for n in size):
        raise ConfigError(f"config.json: quantization_config.weight_block_size is {short(size)}; it must be two whole numbers above 0")
    return size[0], size[1]


def _microscaled(tensors: Tensors) -> Iterator[tuple[RawTensor, tuple[str, str]]]:
    for ends, made in ((("_blocks", "_scales"), ""), ((".weight_packed", ".weight_scale"), ".weight")):
        for name in [n for n in tensors if n.endswith(ends[0])]:
            base = name.removesuffix(ends[0])
            if (other := base + ends[1]) not in tensors:
                raise CheckpointError(f"{name} is there and {other}, its scales, is not")
            yield Microscaled.of(base + made, tensors[name], tensors[other]), (name, other)


def _floats(tensors: Tensors, block: tuple[int, int]) -> Iterator[tuple[RawTensor, tuple[str, str]]]:
    for name in [n for n, t in tensors.items() if t.dtype == E4M3]:
        other = next((name + end for end in SCALES if name + end in tensors), None)
        if other is None:
            raise CheckpointError(f"{name} holds 8-bit floats, and neither {' nor '.join(name + end for end in SCALES)} is there")
        yield Float8.of(name, tensors[name], tensors[other], block), (name, other)
