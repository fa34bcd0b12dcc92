"""The scan of the first Mamba: a small state for every channel, each with time steps of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from vtcore.kvcache.cache import Spec, State
from vtcore.models.activations import SILU
from vtcore.models.config import ModelConfig
from vtcore.models.decoder import Array, Decoder, Layer, Names, Step, Stored, Values
from vtcore.models.selective import FLAT, TAPS
from vtcore.op import Op
from vtcore.ops import causal_conv, channel_scan, silu_mul, time_step

RATES = Values(lambda a_log, c: np.ascontiguousarray(-np.exp(a_log.T)))  # [C S] as [S C]
TURNED = Values(lambda rates, c: np.ascontiguousarray(rates.T))  # the same of GGUF, where they are no logarithms


def channel_names(folder: str) -> Names:
    """The weights of a scan kept under `folder`."""
    return {
        **{n: f"{folder}.{n}" for n in ("in_proj", "x_proj", "dt_proj", "out_proj")},
        "conv1d": Stored(f"{folder}.conv1d", TAPS),
        "rate": Stored(f"{folder}.A_log", RATES),
        "skip": Stored(f"{folder}.D", FLAT),
    }


class ChannelScan(Decoder):
    """`recur`, for layers of kind mamba."""

    kinds: ClassVar[frozenset[str]] = Decoder.kinds | {"mamba"}
    acts: ClassVar[Mapping[str, Op]] = SILU

    def sizes(self, c: ModelConfig) -> tuple[int, int, int]:
        """Channels, numbers of a channel's state, tokens that the convolution sees."""
        return c.intermediate_size, c.state_size, c.conv_kernel

    def caches(self, w: Layer) -> dict[str, Spec]:
        if w.config.kind != "mamba":
            return super().caches(w)
        channels, size, kernel = self.sizes(w.config)
        return {"scan": State({"conv": (kernel - 1, channels), "matrix": (size, channels)})}

    def recur(self, w: Layer, x: Array, step: Step) -> Array:
        """[T, hidden] to [T, hidden]."""
        (channels, size, _), state, wide = self.sizes(w.config), step.view(w, "scan"), w.in_proj(x)
        h = causal_conv(wide[:, :channels], w.conv1d.weight, w.conv1d.bias, state["conv"], *step.walk(state))
        small = w.x_proj(h)
        rank = small.shape[1] - 2 * size
        dt, b, c = self.normed(w, small[:, :rank], small[:, rank : rank + size], small[:, rank + size :])
        y = channel_scan(h, time_step(w.dt_proj(dt), None), w.rate, b, c, w.skip, state["matrix"], *step.walk(state))
        return w.out_proj(silu_mul(wide[:, channels:], y))

    def normed(self, w: Layer, dt: Array, b: Array, c: Array) -> tuple[Array, Array, Array]:
        """What is done to the three parts of x_proj: nothing."""
        return dt, b, c
