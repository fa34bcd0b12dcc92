"""Wrong recurrences."""

from __future__ import annotations

from typing import Any

import numpy as np

from vtcore.conformance.faults.fault import fault, right

Array = np.ndarray[Any, Any]


@fault("causal_conv")
def taps_reversed(weight: Array, **call: Any) -> Array:
    """The newest token meets the oldest weight."""
    return np.asarray(right("causal_conv", weight=weight[::-1], **call))


@fault("causal_conv")
def state_not_kept(state: Array, **call: Any) -> Array:
    """The tokens before are read, and the new ones not kept."""
    return np.asarray(right("causal_conv", state=state.copy(), **call))


@fault("causal_conv")
def always_activated(activate: bool, **call: Any) -> Array:
    """silu, asked or not."""
    return np.asarray(right("causal_conv", activate=True, **call))


@fault("selective_scan")
def state_not_read(state: Array, source: Array, **call: Any) -> Array:
    """Every request starts fresh."""
    return np.asarray(right("selective_scan", state=state, source=np.zeros_like(source), **call))


@fault("selective_scan")
def skip_missing(d: Array | None, **call: Any) -> Array:
    """d x is left out."""
    return np.asarray(right("selective_scan", d=None, **call))


@fault("selective_scan")
def state_in_half(state: Array, **call: Any) -> Array:
    """The state is rounded to float16 when it is kept."""
    out = right("selective_scan", state=state, **call)
    with np.errstate(over="ignore"):
        state[...] = state.astype(np.float16)
    return np.asarray(out)


@fault("channel_scan")
def rate_positive(rate: Array, **call: Any) -> Array:
    """The decay has the other sign."""
    return np.asarray(right("channel_scan", rate=-rate, **call))


@fault("gated_delta")
def decay_ignored(decay: Array, **call: Any) -> Array:
    """The state doesn't fade."""
    return np.asarray(right("gated_delta", decay=np.zeros_like(decay), **call))


@fault("gated_delta")
def neighbours_for_turns(turns: bool, **call: Any) -> Array:
    """Heads are shared by neighbours, whatever `turns` says."""
    return np.asarray(right("gated_delta", turns=False, **call))


@fault("compress")
def gate_ignored(gate: Array, **call: Any) -> Array:
    """All tokens of a window weigh the same."""
    return np.asarray(right("compress", gate=np.zeros_like(gate), **call))


@fault("hyper_in")
def rounds_missing(rounds: int, **call: Any) -> Any:
    """One round fewer."""
    return right("hyper_in", rounds=max(1, rounds - 1), **call)


@fault("hyper_out")
def mixed_transposed(comb: Array, **call: Any) -> Array:
    """The streams are mixed by the transposed matrix."""
    return np.asarray(right("hyper_out", comb=comb.transpose(0, 2, 1), **call))
