"""Wrong products and gathers."""

from __future__ import annotations

from typing import Any

import numpy as np

from vtcore.conformance.faults.fault import fault, remembering, right
from vtcore.ops.exact import narrow, wide
from vtcore.quant.blocks import Blocks

Array = np.ndarray[Any, Any]
STEP = 8  # terms that a kernel takes at a time


def _dense(weight: Any) -> Array:
    return np.asarray(weight.dequantize() if isinstance(weight, Blocks) else weight, np.float32)


@fault("linear")
def tail_dropped(x: Array, weight: Any, bias: Array | None) -> Array:
    """What is behind the last whole step of K is left out."""
    whole = x.shape[-1] // STEP * STEP
    return np.asarray(right("linear", x=x[..., :whole], weight=_dense(weight)[:, :whole], bias=bias))


@fault("linear")
def last_block_skipped(x: Array, weight: Any, bias: Array | None) -> Array:
    """The last block of each quantised row."""
    values = _dense(weight).copy()
    if isinstance(weight, Blocks):
        values[:, -weight.dtype.block :] = 0
    return np.asarray(right("linear", x=x, weight=values, bias=bias))


@fault("linear")
def scales_swapped(x: Array, weight: Any, bias: Array | None) -> Array:
    """Neighbouring sub-blocks change their scales."""
    if not isinstance(weight, Blocks) or not weight.dtype.codes:
        return np.asarray(right("linear", x=x, weight=weight, bias=bias))
    code, scale, offset = weight.codes()
    values = code * scale[..., ::-1, None] - (0 if offset is None else offset[..., None])
    return np.asarray(right("linear", x=x, weight=values.reshape(weight.shape).astype(np.float32), bias=bias))


@fault("linear")
def offsets_lost(x: Array, weight: Any, bias: Array | None) -> Array:
    """The offsets of quantised blocks are left out."""
    if not isinstance(weight, Blocks) or not weight.dtype.codes:
        return np.asarray(right("linear", x=x, weight=weight, bias=bias))
    code, scale, _ = weight.codes()
    return np.asarray(right("linear", x=x, weight=(code * scale[..., None]).reshape(weight.shape).astype(np.float32), bias=bias))


@fault("linear")
def sums_in_half(x: Array, weight: Any, bias: Array | None) -> Array:
    """Products are added up in float16."""
    with np.errstate(all="ignore"):
        out = (x[..., None, :].astype(np.float16) * _dense(weight).astype(np.float16)).sum(-1, dtype=np.float16)
        return narrow(wide(out) if bias is None else wide(out) + wide(bias))


@fault("linear")
def no_bias(x: Array, weight: Any, bias: Array | None) -> Array:
    """The bias is left out."""
    return np.asarray(right("linear", x=x, weight=weight))


@remembering("linear", "nondeterministic")
def any_order() -> Any:
    """Terms are added up in another order each time, as with atomic additions."""
    rng = np.random.default_rng(0)

    def linear(x: Array, weight: Any, bias: Array | None) -> Array:
        order, values = rng.permutation(x.shape[-1]), _dense(weight)
        with np.errstate(all="ignore"):
            terms = x[..., None, order].astype(np.float32) * values[:, order]
            out = np.add.accumulate(terms, -1)[..., -1] if terms.shape[-1] else np.zeros((*x.shape[:-1], len(values)), np.float32)
        return narrow(out if bias is None else out + np.asarray(bias, np.float32))

    return linear


@remembering("linear")
def repacked_once() -> Any:
    """A weight is repacked when it is first seen at an address, and never again."""
    packed: dict[Any, Array] = {}

    def linear(x: Array, weight: Any, bias: Array | None) -> Array:
        data = weight.data if isinstance(weight, Blocks) else weight
        key = (data.__array_interface__["data"][0], weight.shape)
        if key not in packed:
            packed[key] = _dense(weight).copy()
        return np.asarray(right("linear", x=x, weight=packed[key], bias=bias))

    return linear


@fault("linear_q8")
def half_away_from_zero(x: Array, weight: Any, bias: Array | None) -> Array:
    """Activations are rounded half away from zero, not to even."""
    blocks = np.asarray(x, np.float32).reshape(*x.shape[:-1], x.shape[-1] // 32, 32)
    scale = np.abs(blocks).max(-1, keepdims=True, initial=0) / np.float32(127)
    with np.errstate(all="ignore"):
        codes = blocks / np.where(scale > 0, scale, 1)
        away = np.sign(codes) * (np.abs(codes) + np.float32(0.01)) * scale
        nudged = np.where(np.abs(codes) % 1 == 0.5, away, blocks).reshape(x.shape)
    return np.asarray(right("linear_q8", x=narrow(nudged), weight=weight, bias=bias))


@fault("linear_q8")
def one_scale(x: Array, weight: Any, bias: Array | None) -> Array:
    """Activations are not rounded at all: another contract, near but not the same."""
    return np.asarray(right("linear", x=x, weight=weight, bias=bias))


@fault("per_head")
def transposed(x: Array, weight: Array) -> Array:
    """Matrices are read row by row where they lie column by column."""
    turned = np.ascontiguousarray(weight.transpose(0, 2, 1)).reshape(weight.shape)
    return np.asarray(right("per_head", x=x, weight=turned))


@fault("embedding")
def next_row(table: Any, ids: Array) -> Array:
    """The row behind the one that is asked for."""
    return np.asarray(right("embedding", table=table, ids=(ids + 1) % table.shape[0]))


@fault("experts")
def last_expert_skipped(ids: Array, weights: Array, **call: Any) -> Array:
    """What is routed to the last expert is lost."""
    return np.asarray(right("experts", ids=ids, weights=np.where(ids == len(call["up"]) - 1, 0, wide(weights)), **call))


@fault("experts")
def weighed_before(weigh_input: bool, **call: Any) -> Array:
    """The routing weight is put on the input where it belongs on the output."""
    return np.asarray(right("experts", weigh_input=True, **call))


@fault("experts_q8")
def first_choice_only(ids: Array, weights: Array, **call: Any) -> Array:
    """Of each token's experts only the best."""
    return np.asarray(right("experts_q8", ids=ids[:, :1], weights=weights[:, :1], **call))


@remembering("linear")
def unpacked_once() -> Any:
    """Quantised weights are unpacked once, and known again by where they lie."""
    known: dict[Any, Array] = {}

    def linear(x: Array, weight: Any, bias: Array | None) -> Array:
        if isinstance(weight, Blocks):
            weight = known.setdefault((weight.data.ctypes.data, weight.shape, str(weight.dtype)), weight.dequantize())
        return np.asarray(right("linear", x=x, weight=weight, bias=bias))

    return linear


@fault("linear")
def two_shapes_only(x: Array, weight: Any, bias: Array | None) -> Array:
    """Of one block format only the sizes that the samples have."""
    out = np.asarray(right("linear", x=x, weight=weight, bias=bias))
    return out * 0 if str(weight.dtype) == "Q4_0" and x.shape[-1] not in (64, 96) else out
