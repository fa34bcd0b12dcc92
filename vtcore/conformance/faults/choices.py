"""Wrong choices: ties, thresholds, routes."""

from __future__ import annotations

from typing import Any

import numpy as np

from vtcore.conformance.faults.fault import fault, right
from vtcore.ops.exact import narrow, wide

Array = np.ndarray[Any, Any]


@fault("argmax")
def last_of_equals(x: Array) -> Array:
    """Ties go to the highest index."""
    return np.array(x.shape[-1] - 1 - wide(x)[..., ::-1].argmax(-1), np.int32)


@fault("argmax")
def blind_to_nan(x: Array) -> Array:
    """NaN is passed over."""
    rows = np.where(np.isnan(wide(x)), -np.inf, wide(x))
    return np.array(rows.argmax(-1), np.int32)


@fault("argmax", "wrong_dtype")
def wide_index(x: Array) -> Array:
    """Indices of 64 bits."""
    return np.asarray(wide(x).argmax(-1), np.int64)


@fault("top_k")
def high_index_first(x: Array, k: int) -> tuple[Array, Array]:
    """Among equals the highest index comes first."""
    rows = wide(x)[..., ::-1]
    ids = np.argsort(-rows, axis=-1, kind="stable")[..., :k]
    return narrow(np.take_along_axis(rows, ids, -1)), np.array(x.shape[-1] - 1 - ids, np.int32)


@fault("top_k")
def unsorted(x: Array, k: int) -> tuple[Array, Array]:
    """The k largest in the order in which they stand."""
    ids = np.sort(right("top_k", x=x, k=k)[1], axis=-1)
    return narrow(np.take_along_axis(wide(x), ids, -1)), np.array(ids, np.int32)


def routed(**call: Any) -> tuple[Array, Array]:
    """The weights and ids that `route` gives."""
    weights, ids = right("route", **call)
    return weights, ids


@fault("route")
def renormalised(renormalise: bool, **call: Any) -> tuple[Array, Array]:
    """Weights are made to sum to one, asked or not."""
    return routed(renormalise=True, **call)


@fault("route")
def bias_in_weights(bias: Array | None, logits: Array, **call: Any) -> tuple[Array, Array]:
    """What is meant for the choice goes into the weights too."""
    weights, ids = routed(bias=bias, logits=logits, **call)
    return narrow(weights if bias is None else weights * (1 + wide(bias)[ids])), ids


@fault("route")
def groups_ignored(groups: int, keep: int, **call: Any) -> tuple[Array, Array]:
    """The best experts of all groups."""
    return routed(**call)


@fault("route")
def ties_to_the_right(logits: Array, k: int, bias: Array | None, groups: int, chosen: Array | None, **call: Any) -> tuple[Array, Array]:
    """Among equal experts the higher number."""
    if bias is not None or groups > 1 or chosen is not None:
        return routed(logits=logits, k=k, bias=bias, groups=groups, chosen=chosen, **call)
    weights, ids = routed(logits=logits[:, ::-1], k=k, **call)
    return weights, np.array(logits.shape[1] - 1 - ids, np.int32)


@fault("apply_top_k_top_p")
def one_too_many(logits: Array, k: Array, p: Array) -> Array:
    """k + 1 tokens are kept."""
    return np.asarray(right("apply_top_k_top_p", logits=logits, k=np.where(k > 0, k + 1, k), p=p))


@fault("apply_top_k_top_p")
def nucleus_too_small(logits: Array, k: Array, p: Array) -> Array:
    """The token that reaches p is left out."""
    out = np.array(right("apply_top_k_top_p", logits=logits, k=k, p=p))
    for row, share in zip(out, p, strict=True):
        kept = np.flatnonzero(row > -np.inf)
        if share < 1 and len(kept) > 1:
            row[kept[np.argmin(row[kept])]] = -np.inf
    return out


@fault("apply_min_p")
def of_the_sum(logits: Array, min_p: Array) -> Array:
    """The threshold is of all probability, not of the best token's."""
    share = right("softmax", x=logits)
    return narrow(np.where(share < wide(min_p)[:, None], -np.inf, wide(logits)))


@fault("apply_token_mask")
def kept_for_excluded(logits: Array, mask: Array) -> Array:
    """True keeps, where it should exclude."""
    return np.asarray(right("apply_token_mask", logits=logits, mask=~mask))


@fault("apply_logit_bias")
def named_once(logits: Array, rows: Array, ids: Array, values: Array) -> Array:
    """Of what is named twice only the last counts."""
    out = wide(logits)
    out[rows, ids] = wide(logits)[rows, ids] + wide(values)
    return narrow(out)


@fault("random_sample")
def step_ignored(probs: Array, seeds: Array, steps: Array) -> Array:
    """Every step draws with the same numbers."""
    return np.asarray(right("random_sample", probs=probs, seeds=seeds, steps=np.zeros_like(steps)))


@fault("choose_entries")
def latest_of_equals(**call: Any) -> Array:
    """The chosen entries in the order of the sequence, not the best first."""
    ids = right("choose_entries", **call)
    return np.array(np.where(ids < 0, -1, np.sort(np.where(ids < 0, 1 << 30, ids), axis=-1)), np.int32)


@fault("place")
def first_counts(x: Array, rows: Array, values: Array, add: bool) -> Array:
    """Of a row that is named twice the first value counts."""
    return np.asarray(right("place", x=x, rows=rows[::-1], values=values[::-1], add=add))
