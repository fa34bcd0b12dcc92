"""Keys and values of a layer in 8 bits: how they go into the cache, and what to multiply by what comes out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import numpy as np

from vtcore.errors import CheckpointError
from vtcore.kvcache.cache import Key, Spec, View
from vtcore.kvcache.codes import coded, scales_count
from vtcore.models.weights import Raw
from vtcore.op import Array
from vtcore.ops import scale, write_pages, write_pages_q8

Scales = tuple[float, float]  # of a layer's keys, and of its values
NAMED = re.compile(r"\.(\d+)\.(?:[\w.]+\.)?(?:(k|v)_(?:scale|proj\.output_scale)|(kv)_scale)$")


@dataclass(frozen=True)
class Kept:
    """How a model's keys and values are kept: a key of kvcache.codes.DTYPES, and by layer's number the scales that the checkpoint names.

    8-bit floats are of keys / scale and values / scale; where the checkpoint has no scale it is 1, as in vLLM."""

    name: str = "auto"
    scales: Mapping[int, Scales] = field(default_factory=dict)

    def specs(self, specs: Mapping[Key, Spec]) -> dict[Key, Spec]:
        """The caches that layers declared, as they are kept."""
        return coded(specs, self.name)

    def of(self, layer: int) -> Scales:
        """The scales of a layer."""
        return self.scales.get(layer, (1.0, 1.0))

    def write(self, layer: int, kv: View, k: Array, v: Array) -> None:
        """Keep a layer's new keys and values [T, heads, head_dim]."""
        for name, values, by in zip("kv", (k, v), self.of(layer), strict=True):
            if scales_name(name) in kv.arrays:
                write_pages_q8(kv[name], kv[scales_name(name)], values, kv.group.slots)
            else:
                write_pages(kv[name], values if by == 1 else scale(values, 1 / by), kv.group.slots)


def scales_name(name: str) -> str:
    """What paged_attention and the cache call the scales of k and v."""
    return f"{name}_scales"


def codes_of(kv: View) -> dict[str, Any]:
    """What paged_attention needs besides pages of int8."""
    return {n: kv[n] for n in map(scales_name, "kv") if n in kv.arrays}


def kept_as(name: str, tensors: Mapping[str, Raw]) -> Kept:
    """With the scales of a checkpoint's tensors, which are of 8-bit floats only.

    Of a layer that has one of them, or one for both, it is that of keys and values. Raises CheckpointError for one that can't be."""
    if not scales_count(name):
        return Kept(name)
    found: dict[int, dict[str, float]] = {}
    for tensor, raw in tensors.items():
        if match := NAMED.search(tensor):
            found.setdefault(int(match[1]), {})[match[2] or match[3]] = _number(tensor, raw)
    return Kept(name, {layer: _both(numbers) for layer, numbers in found.items()})


def _both(numbers: Mapping[str, float]) -> Scales:
    one = numbers.get("kv") or max(numbers.values())
    return numbers.get("k", one), numbers.get("v", one)


def _number(name: str, raw: Raw) -> float:
    if int(np.prod(raw.shape)) != 1:
        raise CheckpointError(f"{name} is {list(raw.shape)}; it must be one number, the scale of a layer's keys or values")
    number = float(np.asarray(raw.load(), np.float32).reshape(()))
    if not isfinite(number) or number <= 0:
        raise CheckpointError(f"{name} is {number}; it must be a number over 0, the scale of a layer's keys or values")
    return number
