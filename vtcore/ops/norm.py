"""Normalisation over the last axis."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vtcore.op import Array, Call, Tolerance, op
from vtcore.ops.exact import narrow, wide
from vtcore.ops.inputs import arrays, extreme, normal, ones, sixteen, turned
from vtcore.ops.rules import first, not_negative, unless

MEAN = Tolerance({"float32": 2.5e-6}, "a float32 sum of squares in another order, a root and two products: about 20 ulp", over="H")

CENTRED = Tolerance({"float32": 1e-5}, "as MEAN, after a mean is taken off that may be a hundred times what is left", over="H")


def _rms_samples(rng: np.random.Generator) -> Iterator[Call]:
    for x in arrays(rng):
        yield {"x": x, "weight": normal(rng, x.shape[-1]), "eps": 1e-6}
    x, weight = normal(rng, 4, 96), normal(rng, 96)
    yield {"x": x, "weight": None, "eps": 1e-5}
    yield {"x": x, "weight": weight, "eps": 1e-5, "offset": 1.0}
    yield {"x": x, "weight": weight, "eps": 1e-5, "groups": 8}
    yield {"x": extreme(rng, 4, 96), "weight": None, "eps": 1e-5, "groups": 3}
    yield from sixteen({"x": normal(rng, 5, 128, magnitude=300), "weight": weight[:64].repeat(2), "eps": 1e-8})


def _rms_errors() -> Iterator[tuple[Call, str]]:
    good = {"x": ones(2, 8), "weight": ones(8), "eps": 1e-6}
    yield good | {"weight": ones(7)}, "axis H of weight"
    yield good | {"x": np.ones((2, 8), np.int32)}, "x is int32"
    yield good | {"x": [[1.0] * 8]}, "x is list"
    yield good | {"eps": -1e-6}, "eps is -1e-06"
    yield good | {"eps": "small"}, "eps is str"
    yield good | {"groups": 3}, "groups is 3"


def _rms_rules(x: Array, eps: float, groups: int, **_: object) -> str | None:
    h = x.shape[-1]
    return first(not_negative(eps=eps), unless(groups > 0 and h % groups == 0, f"groups is {groups}; it must divide H, {h}"))


@op("x[... H], weight[H]? -> [... H]", samples=_rms_samples, errors=_rms_errors, tolerance=MEAN, check=_rms_rules)
def rms_norm(x: Array, weight: Array | None, eps: float, offset: float = 0.0, groups: int = 1) -> Array:
    """x / sqrt(mean(x^2) + eps) * (offset + weight), the mean over each of `groups` equal parts of the last axis.

    x [... H], weight [H] or None (no factor); offset 1 for weights that are stored as a difference from one (Gemma).
    Root mean square layer normalization, Zhang and Sennrich, 2019."""
    return narrow(_rms(wide(x), weight, eps, offset, groups))


def _add_rms_samples(rng: np.random.Generator) -> Iterator[Call]:
    for x in arrays(rng):
        yield {"x": x, "residual": normal(rng, *x.shape), "weight": normal(rng, x.shape[-1]), "eps": 1e-6}
    x = normal(rng, 3, 96)
    yield {"x": x, "residual": -x, "weight": None, "eps": 1e-5}
    yield {"x": x, "residual": turned(normal(rng, 3, 96)), "weight": normal(rng, 96), "eps": 1e-5, "offset": 1.0, "groups": 4}
    yield from sixteen({"x": x, "residual": normal(rng, 3, 96), "weight": normal(rng, 96), "eps": 1e-6})


def _add_rms_errors() -> Iterator[tuple[Call, str]]:
    good = {"x": ones(2, 8), "residual": ones(2, 8), "weight": ones(8), "eps": 1e-6}
    yield good | {"residual": ones(3, 8)}, "residual has shape [3, 8]"
    yield good | {"residual": ones(2, 7)}, "axis H of residual"
    yield good | {"groups": 0}, "groups is 0"
    yield good | {"offset": None}, "offset is NoneType"


@op(
    "x[... H], residual[... H], weight[H]? -> [... H], [... H]",
    samples=_add_rms_samples,
    errors=_add_rms_errors,
    tolerance=MEAN,
    check=_rms_rules,
)
def add_rms_norm(x: Array, residual: Array, weight: Array | None, eps: float, offset: float = 0.0, groups: int = 1) -> tuple[Array, Array]:
    """The RMS norm of a sum, and the sum: s = x + residual, rounded to float32; (rms_norm(s, weight, eps, offset, groups), s).

    x and residual [... H]. What a pre-norm layer does between its blocks, in one pass."""
    total = narrow(wide(x) + wide(residual))
    return narrow(_rms(wide(total), weight, eps, offset, groups)), total


def _layer_samples(rng: np.random.Generator) -> Iterator[Call]:
    for x in arrays(rng):
        yield {"x": x, "weight": normal(rng, x.shape[-1]), "bias": normal(rng, x.shape[-1]), "eps": 1e-5}
    x = normal(rng, 3, 96) + np.float32(7)
    yield {"x": x, "weight": None, "bias": None, "eps": 1e-12}
    yield {"x": x + np.float32(100), "weight": None, "bias": None, "eps": 1e-5}  # mean(x^2) - mean(x)^2 has no digits left in float32
    yield {"x": x, "weight": normal(rng, 96), "bias": None, "eps": 1e-5}
    yield {"x": x, "weight": None, "bias": normal(rng, 96), "eps": 1e-5}
    yield from sixteen({"x": normal(rng, 3, 96), "weight": normal(rng, 96), "bias": normal(rng, 96), "eps": 1e-5})


def _layer_errors() -> Iterator[tuple[Call, str]]:
    good = {"x": ones(2, 8), "weight": ones(8), "bias": ones(8), "eps": 1e-6}
    yield good | {"bias": ones(1, 8)}, "bias has shape [1, 8]"
    yield good | {"weight": np.ones(8)}, "weight is float64"
    yield good | {"eps": -1.0}, "eps is -1.0"


@op(
    "x[... H], weight[H]?, bias[H]? -> [... H]",
    samples=_layer_samples,
    errors=_layer_errors,
    tolerance=CENTRED,
    check=lambda eps, **_: not_negative(eps=eps),
)
def layer_norm(x: Array, weight: Array | None, bias: Array | None, eps: float) -> Array:
    """(x - mean) / sqrt(mean((x - mean)^2) + eps) * weight + bias over the last axis.

    x [... H], weight and bias [H] or None. Layer normalization, Ba, Kiros and Hinton, 2016."""
    rows = wide(x)
    rows = rows - np.mean(rows, -1, keepdims=True)
    rows = rows / np.sqrt(np.mean(rows * rows, -1, keepdims=True) + eps)
    rows = rows if weight is None else rows * wide(weight)
    return narrow(rows if bias is None else rows + wide(bias))


def _l2_samples(rng: np.random.Generator) -> Iterator[Call]:
    for x in arrays(rng):
        yield {"x": x}
    yield {"x": normal(rng, 3, 4, 64), "eps": 1e-12}
    yield from sixteen({"x": normal(rng, 3, 96, magnitude=300)})


def _l2_errors() -> Iterator[tuple[Call, str]]:
    yield {"x": np.float32(1)}, "at least 1"
    yield {"x": ones(2, 8), "eps": -1.0}, "eps is -1.0"


@op("x[... H] -> [... H]", samples=_l2_samples, errors=_l2_errors, tolerance=MEAN, check=lambda eps, **_: not_negative(eps=eps))
def l2_norm(x: Array, eps: float = 1e-6) -> Array:
    """x / sqrt(sum(x^2) + eps) over the last axis: the sum, not the mean. x [... H].

    The query and key norm of gated delta networks (Yang, Kautz and Hatamizadeh, 2024)."""
    rows = wide(x)
    return narrow(rows / np.sqrt((rows * rows).sum(-1, keepdims=True) + eps))


def _rms(rows: Array, weight: Array | None, eps: float, offset: float, groups: int) -> Array:
    parts = rows.reshape(*rows.shape[:-1], groups, rows.shape[-1] // groups)
    parts = parts / np.sqrt(np.mean(parts * parts, -1, keepdims=True) + eps)
    normed = parts.reshape(rows.shape)
    return normed if weight is None else normed * (offset + wide(weight))
