"""Rounding emulation: a model's ops as an engine in bfloat16 or float16 computes them, with the values kept in float32.

Every result is rounded to the dtype, and so are the weights. Where torch rounds within what is one op here, `RULES` takes the op apart:
  rms_norm      the norm in float32, rounded, and then times the weight; with an offset (Gemma) the factor is float32 too
  silu_mul ...  the activation is rounded before the product
  rotate        both products are rounded, then their sum; pairs that lie interleaved are turned in float32
  softcap       each of the quotient, the tangent and the product
  attention     scores, scaled scores and probabilities are rounded; the softmax itself is float32 (torch's eager attention)
Not rounded: rope angles before their cosine and sine; the factor of `scale`, though Gemma's own code rounds the one of its embedding;
and whatever chooses a token from logits (engines take float32 there)."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Token
from math import inf
from typing import Any

import ml_dtypes
import numpy as np

from vtcore.dispatch import Dispatcher
from vtcore.errors import ArgumentError
from vtcore.memory import HOST
from vtcore.op import RUNNER, Call, Op
from vtcore.ops import add, concat, gelu, gelu_tanh, mul, quick_gelu, rms_norm, scale, silu
from vtcore.ops.attention import entries, gather
from vtcore.quant.blocks import Blocks, as_float32
from vtcore.tensor import Tensor, of

Array = np.ndarray[Any, Any]
DTYPES: dict[str, np.dtype[Any]] = {"bfloat16": np.dtype(ml_dtypes.bfloat16), "float16": np.dtype(np.float16)}
UNROUNDED = "vtcore.ops.sampling"
NAME = "rounding"  # under which reports count what is computed here and by no provider


def dtype_of(name: str | None) -> np.dtype[Any] | None:
    """What to round to; None for float32, which is what everything is computed in."""
    if name is None or name == "float32":
        return None
    if not isinstance(name, str) or name not in DTYPES:
        raise ArgumentError(f"dtype is {name!r}; it must be float32, {' or '.join(DTYPES)}")
    return DTYPES[name]


def rounded_weight(dtype: np.dtype[Any]) -> Callable[[Array | Blocks], Tensor]:
    """How a weight is held: its values in the dtype, as torch loads it. A quantised one takes two bytes a value then."""

    def hold(value: Array | Blocks) -> Tensor:
        if isinstance(value, Blocks) or value.dtype in (np.float32, *DTYPES.values()):
            return of(np.asarray(as_float32(value)).astype(dtype))
        return of(value)

    return hold


class Rounding:
    """A dispatcher's ops with their results rounded. A context manager as a dispatcher is."""

    def __init__(self, dispatcher: Dispatcher, dtype: np.dtype[Any]) -> None:
        self.dispatcher, self.dtype = dispatcher, dtype
        self._tokens: list[Token[Any]] = []

    def run(self, op: Op, call: Call) -> Any:
        """Run one op by its rule; without one, on the dispatcher and then rounded."""
        rule = RULES.get(op.name)
        out = None if rule is None else rule(self, **call)
        return self.apply(op, call) if out is None else out

    def __call__(self, op: Op, *arguments: Any) -> Any:
        """An op's rounded result, for the rules."""
        return self.apply(op, op.bind(*arguments))

    def apply(self, op: Op, call: Call) -> Any:
        """Run on the dispatcher; round what comes back unless the op chooses tokens."""
        out = self.dispatcher.run(op, call)
        return out if op.reference.__module__ == UNROUNDED else self._rounded(out)

    def array(self, values: Array) -> Array:
        """float32 values, each rounded to the dtype."""
        with np.errstate(over="ignore"):
            return values.astype(np.float32).astype(self.dtype).astype(np.float32)

    def computed(self, op: str, values: Array) -> Tensor:
        """What a rule worked out by itself, counted as such."""
        self.dispatcher.ran[op, NAME] += 1
        return of(values)

    def _rounded(self, out: Any) -> Any:
        if isinstance(out, tuple):
            return tuple(self._rounded(o) for o in out)
        if isinstance(out, Tensor) and out.dtype == np.float32:
            values = out.numpy(moved=self.dispatcher.moved)
            values[...] = self.array(values)
            out.storage.wrote(HOST)
        return out

    def __enter__(self) -> Rounding:
        self._tokens.append(RUNNER.set(self.run))
        return self

    def __exit__(self, *_: object) -> None:
        RUNNER.reset(self._tokens.pop())


def _rms_norm(r: Rounding, x: Tensor, weight: Tensor | None, eps: float, offset: float, groups: int) -> Any:
    if weight is None or offset:
        return None
    return r(mul, r(rms_norm, x, None, eps, 0.0, groups), weight)


def _add_rms_norm(r: Rounding, x: Tensor, residual: Tensor, weight: Tensor | None, eps: float, offset: float, groups: int) -> Any:
    total = r(add, x, residual)
    return r.run(rms_norm, rms_norm.bind(total, weight, eps, offset, groups)), total


def _gate(activation: Op) -> Callable[..., Any]:
    def rule(r: Rounding, gate: Tensor, up: Tensor, limit: float = inf) -> Any:
        return r(mul, r(activation, gate), up) if limit == inf else None

    return rule


def _rotate(r: Rounding, x: Tensor, angles: Tensor, interleaved: bool, inverse: bool) -> Any:
    if interleaved or inverse:
        return None
    half = angles.shape[-1]
    cos, sin = angles[:, :1], angles[:, 1:]
    a, b = x[..., :half], x[..., half : 2 * half]
    first = r(add, r(mul, a, cos), r(scale, r(mul, b, sin), -1.0))
    turned = r(concat, first, r(add, r(mul, b, cos), r(mul, a, sin)))
    return turned if x.shape[-1] == 2 * half else r(concat, turned, x[..., 2 * half :])


def _softcap(r: Rounding, x: Tensor, cap: float) -> Any:
    return r.computed("softcap", _capped(r, x.numpy(moved=r.dispatcher.moved), cap))


def _capped(r: Rounding, values: Array, cap: float) -> Array:
    return r.array(r.array(np.tanh(r.array(values / cap))) * cap)


def _paged_attention(
    r: Rounding, q: Tensor, k_pages: Tensor, v_pages: Tensor, table: Tensor, starts: Tensor, lengths: Tensor, until: Tensor,
    scale: float, window: int, chunk: int, cap: float, sinks: Any, chosen: Any, slopes: Any,
    k_scales: Any, v_scales: Any,
) -> Any:  # fmt: skip
    if any(x is not None for x in (sinks, chosen, slopes, k_scales, v_scales)):
        return None
    read = [t.numpy(moved=r.dispatcher.moved) for t in (q, k_pages, v_pages, table, starts, lengths, until)]
    queries, k, v, tables, begin, length, last = read
    out = np.zeros((*queries.shape[:2], v.shape[-1]), np.float32)
    for i, n in enumerate(length):
        keys, values = (as_float32(gather(pages, tables[i])) for pages in (k, v))
        for t in range(begin[i], begin[i + 1]):
            seen = entries(n - begin[i + 1] + t, last[t], window, chunk, None)
            out[t] = _attend(r, queries[t], keys[seen], values[seen], scale, cap)
    return r.computed("paged_attention", out)


def _attend(r: Rounding, query: Array, keys: Array, values: Array, scale: float, cap: float) -> Array:
    """One token: query [Hq D] over keys [n Hk D] and values [n Hk Dv]: [Hq Dv]."""
    grouped = query.reshape(keys.shape[1], -1, query.shape[-1])
    scores = r.array(r.array(np.einsum("hgd,nhd->hgn", grouped, keys, dtype=np.float64)) * np.float32(scale))
    scores = _capped(r, scores, cap) if cap else scores
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    shares = r.array(weights / weights.sum(-1, keepdims=True))
    return r.array(np.einsum("hgn,nhd->hgd", shares, values, dtype=np.float64)).reshape(len(query), -1)


Rule = Callable[..., Any]  # (rounding, an op's arguments by name) -> its result, or None: round what the op gives
RULES: dict[str, Rule] = {
    "rms_norm": _rms_norm,
    "add_rms_norm": _add_rms_norm,
    "silu_mul": _gate(silu),
    "gelu_mul": _gate(gelu_tanh),
    "gelu_erf_mul": _gate(gelu),
    "quick_gelu_mul": _gate(quick_gelu),
    "rotate": _rotate,
    "softcap": _softcap,
    "paged_attention": _paged_attention,
}
