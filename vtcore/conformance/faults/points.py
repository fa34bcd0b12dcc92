"""Wrong activations, rotations and angles."""

from __future__ import annotations

from typing import Any

import numpy as np

from vtcore.conformance.faults.fault import fault, right
from vtcore.ops.exact import narrow, sigmoid, wide

Array = np.ndarray[Any, Any]


@fault("silu_mul")
def unclamped(gate: Array, up: Array, limit: float) -> Array:
    """`limit` is ignored."""
    return np.asarray(right("silu_mul", gate=gate, up=up))


@fault("silu_mul")
def halves_swapped(gate: Array, up: Array, limit: float) -> Array:
    """gate and up change places."""
    return np.asarray(right("silu_mul", gate=up, up=gate, limit=limit))


@fault("swiglu_oai")
def gate_clamped_twice(gate: Array, up: Array, alpha: float, limit: float) -> Array:
    """The gate is clamped from below too."""
    return np.asarray(right("swiglu_oai", gate=np.clip(wide(gate), -limit, limit), up=up, alpha=alpha, limit=limit))


@fault("swiglu_oai")
def one_missing(gate: Array, up: Array, alpha: float, limit: float) -> Array:
    """The + 1 on the other half is left out."""
    g, u = np.minimum(wide(gate), limit), np.clip(wide(up), -limit, limit)
    return narrow(g * sigmoid(alpha * g) * u)


@fault("gelu")
def by_tanh(x: Array) -> Array:
    """The approximation in place of the function: right to three digits."""
    return np.asarray(right("gelu_tanh", x=x))


@fault("silu")
def overflows(x: Array) -> Array:
    """x e^x / (1 + e^x), which is inf / inf for large x."""
    with np.errstate(all="ignore"):
        e = np.exp(np.asarray(x, np.float32))
        return narrow(x.astype(np.float32) * e / (1 + e))


@fault("softcap")
def no_cap(x: Array, cap: float) -> Array:
    """The cap is left out."""
    return narrow(x)


@fault("clamp")
def not_below(x: Array, limit: float) -> Array:
    """Clamped from above only."""
    return narrow(np.minimum(wide(x), limit))


@fault("softmax")
def no_peak(x: Array) -> Array:
    """exp(x) / sum(exp(x)) without taking the largest off: it overflows."""
    with np.errstate(all="ignore"):
        e = np.exp(np.asarray(x, np.float32))
        return narrow(e / e.sum(-1, keepdims=True))


@fault("log_softmax")
def log_of_share(x: Array) -> Array:
    """The logarithm of a float32 share, which is 0 where the logit is far below."""
    with np.errstate(all="ignore"):
        return narrow(np.log(right("softmax", x=x)))


@fault("rotate")
def pairs_confused(x: Array, angles: Array, interleaved: bool, inverse: bool) -> Array:
    """Pairs (2 i, 2 i + 1) where (i, i + F) are meant, and the other way round."""
    return np.asarray(right("rotate", x=x, angles=angles, interleaved=not interleaved, inverse=inverse))


@fault("rotate")
def turned_back(x: Array, angles: Array, interleaved: bool, inverse: bool) -> Array:
    """The sign of the sine is wrong."""
    return np.asarray(right("rotate", x=x, angles=angles, interleaved=interleaved, inverse=not inverse))


@fault("rotate")
def tail_lost(x: Array, angles: Array, interleaved: bool, inverse: bool) -> Array:
    """Channels that aren't turned are left out, and stay zero."""
    out = right("rotate", x=x, angles=angles, interleaved=interleaved, inverse=inverse)
    out[..., 2 * angles.shape[-1] :] = 0
    return np.asarray(out)


@fault("rope_angles")
def angles_in_half(**call: Any) -> Array:
    """Frequencies are rounded to bfloat16's eight bits before they meet large positions."""
    bits = call["frequencies"].astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    return np.asarray(right("rope_angles", **call | {"frequencies": bits.view(np.float32)}))


@fault("position_growth")
def from_one(positions: Array, period: int, rate: float, shift: int) -> Array:
    """Positions are counted from one."""
    return np.asarray(right("position_growth", positions=positions + 1, period=period, rate=rate, shift=shift))


@fault("apply_penalties")
def rewarded(logits: Array, **call: Any) -> Array:
    """Negative logits are divided as well, which makes a token likelier that should become less so."""
    out = np.asarray(right("apply_penalties", logits=np.abs(wide(logits)), **call))
    return np.asarray(np.where(wide(logits) < 0, right("apply_penalties", logits=-np.abs(wide(logits)) / 4, **call), out), np.float32)


@fault("apply_temperature")
def greedy_divided(logits: Array, temperature: Array) -> Array:
    """A temperature of nearly zero divides too."""
    with np.errstate(all="ignore"):
        return narrow(wide(logits) / np.maximum(wide(temperature), 1e-30)[:, None])
