"""What a config says of rotary position, in the spelling of transformers 4 (rope_theta, rope_scaling) or 5 (rope_parameters)."""

from __future__ import annotations

from vtcore.errors import ConfigError
from vtcore.formats.metadata import short
from vtcore.models.fields import MOST, Fields, Json

POSITIONS = ("max_position_embeddings", "n_positions", "n_ctx", "max_sequence_length")


def read_ropes(f: Fields) -> dict[str, Json | None]:
    """By kind of layer, or under "" for all: {rope_type, rope_theta, partial_rotary_factor, ...}; None: such layers don't rotate."""
    given = f.mapping("rope_parameters")
    if any(isinstance(v, dict) for v in given.values()):
        flat, nested = ([n for n, v in given.items() if v is not None and isinstance(v, dict) is kind] for kind in (False, True))
        if flat:
            raise ConfigError(
                f"{f.file}: rope_parameters has {flat[0]} and the object {nested[0]}; it must be one rope, or an object for each kind"
            )
        return {kind: None if p is None else _complete(f, p, kind) for kind, p in given.items()}
    if not given and not f.has("rope_theta"):
        return {}
    whole = _complete(f, given or f.mapping("rope_scaling"), "")
    if f.has("rope_local_base_freq"):  # Gemma 3: scaling is for the full layers only
        return {"full_attention": whole, "sliding_attention": _complete(f, {}, "sliding_attention")}
    return {"": whole}


def longest(f: Fields, ropes: dict[str, Json | None]) -> int:
    """The longest sequence that a checkpoint is made for. Where one rope stretches all layers, its factor counts (vLLM's rule)."""
    trained = trained_length(f)
    p = ropes.get("") or {}
    if p.get("rope_type") == "yarn" and p.get("factor"):
        return max(trained, int(p["original_max_position_embeddings"] * stretch(p)))
    return int(trained * stretch(p)) if p.get("rope_type") in ("linear", "dynamic") and p.get("factor") else trained


def turning(channels: int, width: int) -> float:
    """A number of turning channels as a partial_rotary_factor: a little more than the quotient, since what follows rounds down."""
    return channels / width if channels >= width else (channels + 0.5) / width


def trained_length(f: Fields) -> int:
    """max_position_embeddings, under its several names."""
    return f.integer(*POSITIONS, default=2048)


def stretch(p: Json) -> float:
    """A rope's factor."""
    return Fields(p, "the rope's parameters").number("factor", above=True, high=1e6)


def _complete(f: Fields, given: Json, kind: str) -> Json:
    """One rope's parameters with what a config keeps outside them."""
    p = {n: v for n, v in given.items() if v is not None}
    p["rope_type"] = p.get("rope_type", p.pop("type", "default"))
    if p["rope_type"] in ("su", "yarn") and "short_factor" in p:  # what early Phi 3 called longrope
        p["rope_type"] = "longrope"
    if p["rope_type"] == "mrope":
        p["rope_type"] = "default"
    local = kind == "sliding_attention" and f.has("rope_local_base_freq")
    key = "rope_local_base_freq" if local else "rope_theta"
    base = f.number(key, low=1.0, above=True) if f.has(key) else None
    outside = {"rope_theta": base, "partial_rotary_factor": f.raw.get("partial_rotary_factor")}
    if "factor" in p and p["rope_type"] == "default":
        raise ConfigError(f"{f.file}: a rope has factor {short(p['factor'])} and no rope_type that uses one: which is it?")
    p = {n: v for n, v in outside.items() if v is not None} | p | {"max_position_embeddings": trained_length(f)}
    if f.has("original_max_position_embeddings"):
        p["original_max_position_embeddings"] = f.integer("original_max_position_embeddings")
    inner = Fields(p, "the rope's parameters")
    p["original_max_position_embeddings"] = inner.integer(
        "original_max_position_embeddings", default=p["max_position_embeddings"], high=MOST
    )
    return p
