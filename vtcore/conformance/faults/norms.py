"""Wrong norms."""

from __future__ import annotations

from typing import Any

import numpy as np

from vtcore.conformance.faults.fault import fault, remembering, right
from vtcore.ops.exact import narrow, wide

Array = np.ndarray[Any, Any]


@fault("rms_norm")
def eps_outside(x: Array, weight: Array | None, eps: float) -> Array:
    """eps is added to the root, not to the mean under it."""
    rows = wide(x)
    rows = rows / (np.sqrt(np.mean(rows * rows, -1, keepdims=True)) + eps)
    return narrow(rows if weight is None else rows * wide(weight))


@fault("rms_norm")
def no_eps(x: Array, weight: Array | None, eps: float) -> Array:
    """eps is left out: rows of zeros and of tiny values show it."""
    return np.asarray(right("rms_norm", x=x, weight=weight, eps=0.0))


@fault("rms_norm")
def one_group(x: Array, weight: Array | None, eps: float, offset: float, groups: int) -> Array:
    """The mean is over the whole row, whatever `groups` says."""
    return np.asarray(right("rms_norm", x=x, weight=weight, eps=eps, offset=offset, groups=1))


@fault("rms_norm")
def offset_added(x: Array, weight: Array | None, eps: float, offset: float, groups: int) -> Array:
    """`offset` is added to the result instead of to the weight."""
    return narrow(right("rms_norm", x=x, weight=weight, eps=eps, groups=groups) + np.float32(offset))


@fault("rms_norm")
def squares_in_half(x: Array, weight: Array | None, eps: float) -> Array:
    """Squares are added up in the dtype of x: in float16 they overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.mean(x * x, -1, keepdims=True, dtype=x.dtype)
        rows = wide(x) / np.sqrt(wide(mean) + eps)
    return narrow(rows if weight is None else rows * wide(weight))


@fault("rms_norm")
def divides_by_lanes(x: Array, weight: Array | None, eps: float) -> Array:
    """The sum is divided by the row's length rounded up to a multiple of 8."""
    rows, width = wide(x), x.shape[-1]
    rows = rows / np.sqrt((rows * rows).sum(-1, keepdims=True) / (-(-width // 8) * 8) + eps)
    return narrow(rows if weight is None else rows * wide(weight))


@fault("add_rms_norm")
def norm_of_x(x: Array, residual: Array, weight: Array | None, eps: float, offset: float, groups: int) -> tuple[Array, Array]:
    """The norm is of x, not of the sum."""
    total = right("add_rms_norm", x=x, residual=residual, weight=weight, eps=eps, offset=offset, groups=groups)[1]
    return right("rms_norm", x=x, weight=weight, eps=eps, offset=offset, groups=groups), total


@fault("add_rms_norm", "wrote_input")
def sum_in_place(x: Array, residual: Array, weight: Array | None, eps: float, offset: float, groups: int) -> tuple[Array, Array]:
    """The sum is written into `residual`, as fused kernels do."""
    normed, total = right("add_rms_norm", x=x, residual=residual, weight=weight, eps=eps, offset=offset, groups=groups)
    residual[...] = total
    return normed, total


@fault("layer_norm")
def sample_variance(x: Array, weight: Array | None, bias: Array | None, eps: float) -> Array:
    """The variance is divided by n - 1."""
    rows = wide(x) - np.mean(wide(x), -1, keepdims=True)
    rows = rows / np.sqrt((rows * rows).sum(-1, keepdims=True) / max(1, x.shape[-1] - 1) + eps)
    rows = rows if weight is None else rows * wide(weight)
    return narrow(rows if bias is None else rows + wide(bias))


@fault("layer_norm")
def variance_by_difference(x: Array, weight: Array | None, bias: Array | None, eps: float) -> Array:
    """The variance is mean(x^2) - mean(x)^2 in float32, whose digits cancel where the mean is large."""
    rows = np.asarray(x, np.float32)
    mean = rows.mean(-1, keepdims=True)
    with np.errstate(all="ignore"):
        rows = (rows - mean) / np.sqrt((rows * rows).mean(-1, keepdims=True) - mean * mean + np.float32(eps))
    rows = rows if weight is None else rows * np.asarray(weight, np.float32)
    return narrow(rows if bias is None else rows + np.asarray(bias, np.float32))


@fault("l2_norm")
def mean_for_sum(x: Array, eps: float) -> Array:
    """The mean of the squares in place of their sum."""
    return np.asarray(right("rms_norm", x=x, weight=None, eps=eps))


@remembering("rms_norm")
def known_by_rows() -> Any:
    """Results are kept by the values of x, and the other arguments forgotten."""
    known: dict[Any, Array] = {}

    def rms_norm(x: Array, weight: Array | None, eps: float, offset: float, groups: int) -> Array:
        call = {"x": x, "weight": weight, "eps": eps, "offset": offset, "groups": groups}
        return known.setdefault((x.tobytes(), x.shape, eps, offset, groups), np.asarray(right("rms_norm", **call))).copy()

    return rms_norm


@fault("rms_norm")
def one_group_of_rows(**call: Any) -> Array:
    """Behind row 128 comes the first one again."""
    out = np.asarray(right("rms_norm", **call))
    if out.ndim > 1 and len(out) > 128:
        out[128:] = out[0]
    return out
