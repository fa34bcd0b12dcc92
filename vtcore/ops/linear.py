"""Products with weights [N, K]: the order of torch's Linear, K contiguous."""

from __future__ import annotations

import numpy as np

from vtcore.op import Array, op
from vtcore.ops.exact import narrow, product, wide
from vtcore.ops.inputs import nothing, nothing_wrong
from vtcore.quant.blocks import BlockFormat

Q8_BLOCK = 32  # activations that share a scale


@op("x[... K], weight[N K]:w, bias[N]? -> [... N]", samples=nothing, errors=nothing_wrong)
def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """x @ weight^T + bias: every product and sum in float64, one rounding at the end.

    x [... K]; weight [N K], dense or quantised (then the values that its format stands for); bias [N] or None."""
    out = product(wide(x).reshape(_rows(x), x.shape[-1]), weight)
    return narrow(out if bias is None else out + wide(bias)).reshape(*x.shape[:-1], weight.shape[0])


def _integers_only(weight: Array, **_: object) -> str | None:
    if not isinstance(weight.dtype, BlockFormat):
        return f"weight is {weight.dtype}; it must be quantised (linear takes dense weights)"
    return None if weight.dtype.codes else f"weight is {weight.dtype}, which has no integer form; use linear"


@op("x[... K], weight[N K]:w, bias[N]? -> [... N]", samples=nothing, errors=nothing_wrong, check=_integers_only)
def linear_q8(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """x @ weight^T + bias with activations rounded to 8 bits: what llama.cpp computes, in one fixed order.

    x [... K] is cut into blocks of 32 along K. A block has the float32 scale d = absmax / 127 and the integers
    q = clip(round half to even(x / d), -127, 127), zeros where d is zero; a block that holds NaN or an infinity makes its row NaN.
    The weight's codes c come in sub-blocks with a scale s and an offset m each: value = s * c - m (Blocks.codes()).
    Exact integers: dot = sum(q * c) and total = sum(q) over each sub-block. Then float32, each operation rounded, in this order:
        block  = d * (s_0 * dot_0 + s_1 * dot_1 + ...) - d * (m_0 * total_0 + m_1 * total_1 + ...)
        result = block_0 + block_1 + ... + bias
    each sum from left to right; without offsets the second half of a block is absent."""
    codes = weight.codes()
    rows = narrow(x).reshape(_rows(x), x.shape[-1])
    out = np.stack([_q8_row(row, *codes) for row in rows]) if len(rows) else np.zeros((0, weight.shape[0]), np.float32)
    out = out if bias is None else out + np.asarray(bias, np.float32)
    return narrow(out).reshape(*x.shape[:-1], weight.shape[0])


def quantize_q8(row: Array) -> tuple[Array, Array]:
    """One float32 row [K] as int32 codes [K] and a float32 scale [K / 32]: NaN for a block that isn't finite."""
    blocks = row.reshape(-1, Q8_BLOCK)
    scale = np.abs(blocks).max(-1, initial=0) / np.float32(127)
    usable = np.isfinite(scale) & (scale > 0)
    codes = np.rint(blocks / np.where(usable, scale, np.float32(1))[:, None])
    codes = np.where(usable[:, None], np.clip(codes, -127, 127), 0).astype(np.int32)
    return codes.reshape(-1), np.where(np.isfinite(scale), scale, np.float32(np.nan))


def _q8_row(row: Array, code: Array, scale: Array, offset: Array | None) -> Array:
    q, d = quantize_q8(row)
    q = q.reshape(code.shape[1:])
    dot = np.einsum("nbw,bw->nb", code, q, dtype=np.int64)
    blocks = d * _left_to_right((scale * dot.astype(np.float32)).reshape(len(code), len(d), -1))
    if offset is not None:
        total = q.sum(-1).astype(np.float32)
        blocks = blocks - d * _left_to_right((offset * total).reshape(len(code), len(d), -1))
    return _left_to_right(blocks)


def _left_to_right(x: Array) -> Array:
    """The sum over the last axis in float32, one after the other."""
    out = np.zeros(x.shape[:-1], np.float32)
    for i in range(x.shape[-1]):
        out = out + x[..., i]
    return out


@op("x[T H A], weight[H A B] -> [T H B]", samples=nothing, errors=nothing_wrong)
def per_head(x: Array, weight: Array) -> Array:
    """x[t, h] @ weight[h]: each head has a matrix of its own. x [T H A], weight [H A B], result [T H B].

    Latent attention's products with the halves of its expansion (DeepSeek-V2, 2024)."""
    out = np.zeros((x.shape[0], *weight.shape[::2]))
    matrices = [wide(w.T) for w in weight]
    for t, row in enumerate(wide(x)):
        for h, matrix in enumerate(matrices):
            out[t, h] = np.einsum("ba,a->b", matrix, row[h])
    return narrow(out)


def _rows(x: Array) -> int:
    return int(np.prod(x.shape[:-1], dtype=np.int64))
