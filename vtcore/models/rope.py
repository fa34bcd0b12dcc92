"""Frequencies of a rope from its parameters: what a checkpoint fixes once, before any token. Each formula in the order in which
transformers computes it, in float32."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vtcore import tensor
from vtcore.errors import ConfigError
from vtcore.formats.metadata import short
from vtcore.models.fields import Fields, Json
from vtcore.tensor import Tensor

Array = np.ndarray[Any, Any]
Scaled = tuple[Array, float]
WHENCE = "by head_dim, qk_rope_head_dim or rotary_dim, and partial_rotary_factor"


@dataclass(frozen=True)
class Rope:
    """Frequencies [half], a factor on cosine and sine, and for multimodal positions the axis each frequency follows."""

    frequencies: Array
    scale: float = 1.0
    axes: Array | None = None
    dynamic: tuple[float, int, float] | None = None  # theta, longest trained length, factor: the request's length decides


@dataclass(frozen=True)
class HeldRope:
    """A rope whose constants are tensors, as a model holds it."""

    rope: Rope
    frequencies: Tensor
    axes: Tensor | None

    @classmethod
    def of(cls, rope: Rope) -> HeldRope:
        """Wrap the constants, once."""
        return cls(rope, tensor.of(rope.frequencies), None if rope.axes is None else tensor.of(rope.axes))


def make_rope(parameters: Json, width: int) -> Rope:
    """By `rope_type`. `width` is that of a head, of which `partial_rotary_factor` turns; ConfigError for parameters that make no sense."""
    p = Fields(parameters, "the rope's parameters")
    kind = p.word("rope_type", default="default", allowed=FORMULAS)
    theta = p.number("rope_theta", low=1.0, above=True)
    turn = width if kind == "proportional" else int(width * p.number("partial_rotary_factor", default=1.0, high=1.0, above=True))
    if turn < 2 or turn % 2:
        raise ConfigError(f"rope turns {turn} of a head's {width} channels ({WHENCE}); it must be an even number, at least 2")
    powers = theta ** (np.arange(0, turn, 2, dtype=np.float32) / np.float32(turn))  # what a position is divided by
    frequencies, scale = FORMULAS[kind](powers.astype(np.float32), p, turn)
    if not np.isfinite(frequencies).all() or not math.isfinite(np.float32(scale)):
        given = ", ".join(f"{n} {short(v)}" for n, v in parameters.items() if isinstance(v, (int, float)))
        raise ConfigError(f"the rope's parameters ({kind}: {given}) make frequencies or a scale that float32 doesn't hold")
    rope = Rope(frequencies.astype(np.float32), scale, _axes(p, turn // 2))
    if kind == "dynamic" and not p.has("alpha"):
        rope = replace(rope, dynamic=(theta, p.integer("max_position_embeddings"), p.number("factor", low=1.0, high=1e6)))
    return rope


def _plain(powers: Array, p: Fields, turn: int) -> Scaled:
    return 1 / powers, 1.0


def _linear(powers: Array, p: Fields, turn: int) -> Scaled:
    return 1 / powers / np.float32(p.number("factor", above=True)), 1.0


def _dynamic(powers: Array, p: Fields, turn: int) -> Scaled:
    """NTK: with `alpha` a base that is fixed; else the op `dynamic_angles` makes it from each request's length."""
    if turn < 4:
        raise ConfigError(f"a dynamic rope of {turn} channels is not defined; it needs at least 4")
    return _ntk(powers, p, turn, "alpha") if p.has("alpha") else (1 / powers, 1.0)


def _ntk(powers: Array, p: Fields, turn: int, *keys: str) -> Scaled:
    base = p.number("rope_theta") * p.number(*(keys or ("alpha", "factor")), above=True) ** (turn / (turn - 2))
    return 1 / base ** (np.arange(0, turn, 2, dtype=np.float32) / np.float32(turn)), 1.0


def _divided(powers: Array, p: Fields, turn: int) -> Scaled:
    """GGUF keeps what each frequency is divided by (rope_freqs.weight)."""
    return 1 / powers / np.array(p.numbers("divisors", turn // 2), np.float32), p.number("attention_factor", default=1.0)


def _llama3(powers: Array, p: Fields, turn: int) -> Scaled:
    factor, low = np.float32(p.number("factor", above=True)), p.number("low_freq_factor", above=True)
    high, original = p.number("high_freq_factor", above=True), p.integer("original_max_position_embeddings")
    if high <= low:
        raise ConfigError(f"high_freq_factor is {high:g} and low_freq_factor {low:g}; the first must be the larger one")
    f = 1 / powers
    length = np.float32(2 * math.pi) / f
    smooth = (np.float32(original) / length - np.float32(low)) / np.float32(high - low)
    between = (1 - smooth) * f / factor + smooth * f
    return np.where(length > original / low, f / factor, np.where(length < original / high, f, between)), 1.0


def _yarn(powers: Array, p: Fields, turn: int) -> Scaled:
    factor, original = yarn_stretch(p), p.integer("original_max_position_embeddings")

    def border(key: str, default: float) -> float:
        rotations = p.number(key, default=default, above=True)
        return turn * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(p.number("rope_theta")))

    low, high = border("beta_fast", 32.0), border("beta_slow", 1.0)
    if p.flag("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, turn - 1)
    high += 0.001 if low == high else 0
    ramp = np.clip((np.arange(turn // 2, dtype=np.float32) - np.float32(low)) / np.float32(high - low), 0, 1)
    kept = 1 - ramp
    return 1 / (np.float32(factor) * powers) * (1 - kept) + 1 / powers * kept, yarn_factor(p)


def yarn_stretch(p: Fields) -> float:
    """By how much yarn lengthens the context."""
    lengths = p.integer("max_position_embeddings") / p.integer("original_max_position_embeddings")
    return p.number("factor", default=lengths, above=True, high=1e6)


def yarn_factor(p: Fields) -> float:
    """What yarn multiplies cosine and sine by."""
    factor = yarn_stretch(p)
    if p.has("attention_factor"):
        return p.number("attention_factor", above=True)
    mscale, all_dim = p.number("mscale", default=0.0), p.number("mscale_all_dim", default=0.0)
    if mscale and all_dim:
        return yarn_mscale(factor, mscale) / yarn_mscale(factor, all_dim)
    return yarn_mscale(factor, 1.0)


def yarn_mscale(factor: float, m: float) -> float:
    """0.1 m ln(factor) + 1."""
    return 0.1 * m * math.log(factor) + 1 if factor > 1 else 1.0


def _longrope(powers: Array, p: Fields, turn: int) -> Scaled:
    """Long or short is decided once, by the longest sequence that will be served (vLLM's rule), strictly above the original length."""
    original, longest = p.integer("original_max_position_embeddings", low=2), p.integer("max_position_embeddings")
    factor = p.number("factor", default=longest / original, above=True)
    which = "long" if p.integer("max_model_len", default=longest) > original else "short"
    lists = {n: p.numbers(f"{n}_factor", turn // 2) for n in ("long", "short")}
    amplitude = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
    amplitude = p.number(f"{which}_mscale", "attention_factor", default=amplitude, above=True)
    return 1 / (np.array(lists[which], np.float32) * powers), amplitude


def _proportional(powers: Array, p: Fields, turn: int) -> Scaled:
    """Frequencies as if the whole head turned, of which the first part does."""
    kept = int(p.number("partial_rotary_factor", default=1.0, high=1.0) * turn // 2)
    return np.where(np.arange(turn // 2) < kept, 1 / powers / np.float32(p.number("factor", default=1.0, above=True)), 0), 1.0


FORMULAS: dict[str, Callable[[Array, Fields, int], Scaled]] = {
    "default": _plain,
    "linear": _linear,
    "dynamic": _dynamic,
    "ntk": _ntk,
    "divided": _divided,
    "llama3": _llama3,
    "yarn": _yarn,
    "longrope": _longrope,
    "proportional": _proportional,
}


def _axes(p: Fields, half: int) -> Array | None:
    """Which of the three positions each frequency follows: in runs, or interleaved."""
    if not p.has("mrope_section"):
        return None
    sections = [int(n) for n in p.numbers("mrope_section", 3)]
    if sum(sections) != half:
        raise ConfigError(
            f"mrope_section {short(p.raw['mrope_section'])} adds up to {short(sum(sections))}; it must be {half}, "
            f"half of what rope turns ({WHENCE})"
        )
    if not p.flag("mrope_interleaved"):
        return np.repeat(np.arange(3, dtype=np.int32), sections)
    index = np.arange(half)
    height, width = (index % 3 == 1) & (index < 3 * sections[1]), (index % 3 == 2) & (index < 3 * sections[2])
    return np.where(height, 1, np.where(width, 2, 0)).astype(np.int32)
