"""Products with weights [N, K]: the order of torch's Linear, K contiguous."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vtcore.op import Array, Call, Tolerance, op
from vtcore.ops.exact import narrow, product, wide
from vtcore.ops.inputs import blocks, cut, normal, ones, sixteen, turned
from vtcore.quant.blocks import FORMATS, BlockFormat

Q8_BLOCK = 32  # activations that share a scale
ROUNDED = "float32 sums of products in another order: about 30 ulp of the row's largest output for 64 terms, 190 for 2048"
SUMS = Tolerance({"float32": 4e-6}, ROUNDED, over="K")
HEAD_SUMS = Tolerance({"float32": 2e-5}, f"{ROUNDED}; five times that, since a row may be one output, of terms that cancel", over="A")
SHAPES = (((1,), 64, 64), ((3,), 127, 33), ((2, 3), 96, 80), ((), 48, 24), ((17,), 576, 40), ((2,), 2048, 16), ((0,), 32, 8))


def _dense_samples(rng: np.random.Generator) -> Iterator[Call]:
    for lead, k, n in SHAPES:
        yield {"x": normal(rng, *lead, k), "weight": normal(rng, n, k)}
    call = {"x": normal(rng, 5, 80), "weight": normal(rng, 48, 80), "bias": normal(rng, 48)}
    yield call
    yield from sixteen(call)
    yield {"x": call["x"], "weight": call["weight"].astype(np.float16), "bias": None}
    yield {"x": cut(call["x"]), "weight": cut(call["weight"])}
    yield {"x": turned(call["x"]), "weight": call["weight"][::3]}
    yield {"x": normal(rng, 3, 80, magnitude=1e4), "weight": normal(rng, 48, 80, magnitude=1e-4)}


def _quantised_samples(rng: np.random.Generator, integers: bool = False) -> Iterator[Call]:
    for fmt in (f for f in FORMATS.values() if f.codes or not integers):
        for rows, n, k in ((1, 8, 2 * fmt.block), (3, 5, max(fmt.block, 96 // fmt.block * fmt.block))):
            yield {"x": normal(rng, rows, k), "weight": blocks(rng, n, k, fmt), "bias": normal(rng, n) if rows > 1 else None}


def _samples(rng: np.random.Generator) -> Iterator[Call]:
    yield from _dense_samples(rng)
    yield from _quantised_samples(rng)


def _errors() -> Iterator[tuple[Call, str]]:
    yield {"x": ones(2, 8), "weight": ones(4, 7)}, "axis K of weight [4, 7] is 7; it must be 8"
    yield {"x": ones(2, 8), "weight": ones(8)}, "weight has shape [8]"
    yield {"x": ones(2, 8), "weight": np.ones((4, 8), np.int8)}, "weight is int8"
    yield {"x": ones(2, 8), "weight": ones(4, 8), "bias": ones(8)}, "axis N of bias"
    yield {"x": blocks(np.random.default_rng(0), 2, 32, FORMATS["Q8_0"]), "weight": ones(4, 32)}, "x is Q8_0"


@op("x[... K], weight[N K]:w, bias[N]? -> [... N]", samples=_samples, errors=_errors, tolerance=SUMS)
def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """x @ weight^T + bias: every product and sum in float64, one rounding at the end.

    x [... K]; weight [N K], dense or quantised (then the values that its format stands for); bias [N] or None."""
    out = product(wide(x).reshape(_rows(x), x.shape[-1]), weight)
    return narrow(out if bias is None else out + wide(bias)).reshape(*x.shape[:-1], weight.shape[0])


def _q8_samples(rng: np.random.Generator) -> Iterator[Call]:
    yield from _quantised_samples(rng, integers=True)
    weight, k = blocks(rng, 6, 96, FORMATS["Q4_1"]), 96
    yield {"x": normal(rng, 2, 3, k), "weight": weight, "bias": normal(rng, 6)}
    yield {"x": ones(0, k), "weight": weight}
    yield {"x": normal(rng, k), "weight": weight[::2]}
    yield {"x": cut(normal(rng, 4, k)), "weight": weight}
    yield from sixteen({"x": normal(rng, 2, k), "weight": weight, "bias": normal(rng, 6)})
    x = normal(rng, 5, k)
    x[0], x[1, :32], x[2] = 0, 0, np.arange(k) - 48  # a zero row, a zero block, and ties between two codes
    x[4, 32:63], x[4, 63] = np.arange(31) + 0.5, 127  # ties again, of which half go to the lower code
    x[3, 40], x[4, :32] = 1e4, 1e-42  # one value that takes all of its block's range, and a scale that is subnormal
    yield {"x": x, "weight": weight}


def _q8_errors() -> Iterator[tuple[Call, str]]:
    weight = blocks(np.random.default_rng(0), 4, 64, FORMATS["Q4_0"])
    yield {"x": ones(2, 64), "weight": ones(4, 64)}, "linear takes dense weights"
    yield {"x": ones(2, 64), "weight": blocks(np.random.default_rng(0), 4, 64, FORMATS["F8_E4M3"])}, "no integer form; use linear"
    yield {"x": ones(2, 32), "weight": weight}, "axis K of weight [4, 64] is 64; it must be 32"
    yield {"x": ones(2, 64), "weight": weight, "bias": ones(5)}, "axis N of bias"


def _integers_only(weight: Array, **_: object) -> str | None:
    if not isinstance(weight.dtype, BlockFormat):
        return f"weight is {weight.dtype}; it must be quantised (linear takes dense weights)"
    return None if weight.dtype.codes else f"weight is {weight.dtype}, which has no integer form; use linear"


@op("x[... K], weight[N K]:w, bias[N]? -> [... N]", samples=_q8_samples, errors=_q8_errors, tolerance=SUMS, check=_integers_only)
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
    dot = np.einsum("nbw,bw->nb", code, q)  # fits: 32 * 127 * |code| is under 2^31
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


def _head_samples(rng: np.random.Generator) -> Iterator[Call]:
    for t, h, a, b in ((1, 4, 128, 512), (5, 3, 33, 17), (0, 2, 16, 8), (7, 1, 64, 1)):
        yield {"x": normal(rng, t, h, a), "weight": normal(rng, h, a, b)}
    call = {"x": normal(rng, 3, 4, 24), "weight": normal(rng, 4, 24, 16)}
    yield {"x": cut(call["x"]), "weight": turned(call["weight"])}
    yield from sixteen(call)


def _head_errors() -> Iterator[tuple[Call, str]]:
    yield {"x": ones(2, 3, 8), "weight": ones(4, 8, 5)}, "axis H of weight"
    yield {"x": ones(2, 3, 8), "weight": ones(3, 5, 8)}, "axis A of weight"
    yield {"x": ones(2, 24), "weight": ones(3, 8, 5)}, "x has shape [2, 24]; it must have 3 axes"


@op("x[T H A], weight[H A B] -> [T H B]", samples=_head_samples, errors=_head_errors, tolerance=HEAD_SUMS)
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
