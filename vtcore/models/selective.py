"""Selective scans: layers that fold all tokens into one state, as Mamba 2 and the hybrids have them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vtcore.errors import ConfigError
from vtcore.kvcache.cache import Spec, State
from vtcore.models.activations import SILU
from vtcore.models.config import ModelConfig
from vtcore.models.decoder import Array, Decoder, Layer, Names, Step, Stored, Values, flat, heads
from vtcore.op import Op
from vtcore.ops import causal_conv, rms_norm, selective_scan, silu_mul, time_step

NEGATIVE_EXP = Values(lambda a_log, c: -np.exp(a_log.reshape(-1)))  # checkpoints keep the logarithm of a rate, GGUF the rate
TAPS = Values(lambda weight, c: np.ascontiguousarray(weight.reshape(-1, weight.shape[-1]).T))  # [C 1 K], [C K] or [1 C 1 K] as [K C]
FLAT = Values(lambda a, c: a.reshape(-1))
COLUMN = Values(lambda a, c: a.reshape(-1, 1))


@dataclass(frozen=True)
class Scan:
    """The sizes of a selective scan."""

    heads: int
    width: int  # of a head
    groups: int
    state: int
    kernel: int

    @property
    def inner(self) -> int:
        """Channels of all heads."""
        return self.heads * self.width

    @property
    def channels(self) -> int:
        """What the convolution sees: the heads, B and C."""
        return self.inner + 2 * self.groups * self.state


def scan_names(folder: str) -> Names:
    """The weights of a scan kept under `folder`."""
    return {
        **{n: f"{folder}.{n}" for n in ("in_proj", "dt_bias", "out_proj")},
        "conv1d": Stored(f"{folder}.conv1d", TAPS),
        "rate": Stored(f"{folder}.A_log", NEGATIVE_EXP),
        "skip": Stored(f"{folder}.D", FLAT),
        "scan_norm": Stored(f"{folder}.norm", FLAT),
    }


class SelectiveScan(Decoder):
    """`recur`, for layers of kind mamba."""

    kinds: ClassVar[frozenset[str]] = Decoder.kinds | {"mamba"}
    acts: ClassVar[Mapping[str, Op]] = SILU

    def sizes(self, c: ModelConfig) -> Scan:
        """Under the keys that most hybrids have."""
        return Scan(c.mamba_n_heads, c.mamba_d_head, c.mamba_n_groups, c.mamba_d_state, c.mamba_d_conv)

    def caches(self, w: Layer) -> dict[str, Spec]:
        return self.scan_caches(w) if w.config.kind == "mamba" else super().caches(w)

    def scan_caches(self, w: Layer) -> dict[str, Spec]:
        """What a scan keeps."""
        s = self.sizes(w.config)
        return {"scan": State({"conv": (s.kernel - 1, s.channels), "matrix": (s.heads, s.state, s.width)})}

    def recur(self, w: Layer, x: Array, step: Step) -> Array:
        """[T, hidden] to [T, hidden]."""
        s, state, wide = self.sizes(w.config), step.view(w, "scan"), w.in_proj(x)
        z, mixed, dt = wide[:, : s.inner], wide[:, s.inner : s.inner + s.channels], wide[:, s.inner + s.channels :]
        mixed = causal_conv(mixed, w.conv1d.weight, w.conv1d.bias, state["conv"], *step.walk(state))
        h, edge = heads(mixed[:, : s.inner], s.width), s.inner + s.groups * s.state
        b, c = (heads(part, s.state) for part in (mixed[:, s.inner : edge], mixed[:, edge:]))
        dt = time_step(dt, w.dt_bias, *limits(w.config))
        y = selective_scan(h, dt, w.rate, b, c, w.skip, state["matrix"], *step.walk(state))
        return w.out_proj(self.gated(w, flat(y), z))

    def gated(self, w: Layer, y: Array, z: Array) -> Array:
        """The gate, then a norm of each group."""
        return rms_norm(silu_mul(z, y), w.scan_norm.weight, w.config.eps, groups=self.sizes(w.config).groups)


def limits(c: ModelConfig) -> tuple[float, float]:
    """Bounds of a time step. JSON has no infinity: transformers writes an object in its place."""
    given = (0.0, math.inf) if c.rest.get("time_step_limit") is None else c.rest["time_step_limit"]
    bounds = [_number(v) for v in given] if isinstance(given, (list, tuple)) else []
    if len(bounds) != 2 or not 0 <= bounds[0] <= bounds[1]:
        raise ConfigError(f"time_step_limit is {given!r:.80}; it must be two numbers from 0 on, the smaller first")
    return bounds[0], bounds[1]


def _number(value: Any) -> float:
    value = value.get("__float__") if isinstance(value, dict) else value
    return math.inf if value == "Infinity" else float(value) if isinstance(value, (int, float)) else math.nan
