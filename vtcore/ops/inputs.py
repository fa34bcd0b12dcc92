"""Arrays for samples: the shapes, dtypes, layouts and magnitudes that a kernel meets in real models, and those that break one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from vtcore.op import Call
from vtcore.quant.blocks import FORMATS, BlockFormat, Blocks

Array = np.ndarray[Any, Any]
SIXTEEN = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
# hidden sizes of real models, an odd one, one row, more axes, fewer axes, no rows
SHAPES = ((1, 64), (3, 127), (5, 2048), (2, 3, 128), (96,), (0, 64))
EXTREMES = (0.0, -0.0, 1e-40, -1e-40, 1e-30, 1e-4, -1e4, 1e4)  # 1e-40 is subnormal
LIKELY = (0.25, 8.0)  # the largest magnitude of a usable random block lies between
UNSEEN = 1e3  # what stands in a cache where nobody may look
POOL = 1024  # random blocks to choose usable ones from


def normal(rng: np.random.Generator, *shape: int, magnitude: float = 1.0) -> Array:
    """float32 of a normal distribution."""
    return (rng.standard_normal(shape) * magnitude).astype(np.float32)


def extreme(rng: np.random.Generator, *shape: int) -> Array:
    """float32 that mixes zeros of both signs, a subnormal, tiny and large values."""
    return rng.choice(np.array(EXTREMES, np.float32), shape)


def cut(x: Array) -> Array:
    """The same values as the middle of wider rows: what a part of a fused projection looks like."""
    wider = np.full((*x.shape[:-1], x.shape[-1] + 8), np.nan, x.dtype)
    wider[..., 3 : 3 + x.shape[-1]] = x
    return wider[..., 3 : 3 + x.shape[-1]]


def endless(x: Array) -> Array:
    """The same values but for the second token's first one, which is infinite."""
    changed = x.copy()
    changed[(1, *([0] * (x.ndim - 1)))] = np.inf
    return changed


def turned(x: Array) -> Array:
    """The same values with the axes in the opposite order in memory."""
    return np.ascontiguousarray(x.T).T


def arrays(rng: np.random.Generator) -> Iterator[Array]:
    """Arrays for an op that works along the last axis or value by value."""
    for shape in SHAPES:
        yield normal(rng, *shape)
    yield normal(rng, 3, 65, magnitude=1e4)
    yield normal(rng, 3, 65, magnitude=1e-30)
    yield extreme(rng, 4, 64)
    yield cut(normal(rng, 5, 96))
    yield turned(normal(rng, 6, 33))


def vocabularies(rng: np.random.Generator) -> Iterator[Array]:
    """[R V] of vocabularies: tiny, odd, real; one row, several, none; with ties, with excluded tokens, with nothing but them."""
    for r, v in ((1, 8), (3, 127), (2, 4099), (0, 16), (4, 1)):
        yield normal(rng, r, v, magnitude=4)
    yield rng.integers(-3, 3, (4, 33)).astype(np.float32)
    x = normal(rng, 3, 40, magnitude=1e4)
    x[0, ::2], x[1] = -np.inf, -np.inf
    yield x
    yield cut(normal(rng, 3, 24))
    yield turned(normal(rng, 3, 24))


def sixteen(call: Call) -> Iterator[Call]:
    """The same call with its float32 arrays in float16, then in bfloat16."""
    for dtype in SIXTEEN:
        yield {n: v.astype(dtype) if isinstance(v, np.ndarray) and v.dtype == np.float32 else v for n, v in call.items()}


def ints(*values: int | Sequence[int]) -> Array:
    """int32, as an engine's integer arrays are."""
    return np.array(values, np.int32)


def ones(*shape: int) -> Array:
    """float32 ones: what error inputs are made of."""
    return np.ones(shape, np.float32)


def blocks(rng: np.random.Generator, rows: int, columns: int, fmt: BlockFormat) -> Blocks:
    """A quantised array [rows columns] of random blocks with ordinary scales. columns is a multiple of the format's block."""
    chosen = rng.integers(0, len(pool(fmt.name)), rows * columns // fmt.block)
    return Blocks(pool(fmt.name)[chosen].reshape(rows, fmt.row_bytes(columns)), fmt)


@cache
def pool(name: str) -> Array:
    """Random bytes of a format, blocks whose values are finite and of ordinary size: uint8 [n, block bytes]."""
    fmt = FORMATS[name]
    raw = np.random.default_rng(0).integers(0, 256, (POOL, fmt.nbytes), np.uint8)
    with np.errstate(all="ignore"):
        largest = np.abs(fmt.dequantize(raw)).max(-1)
    usable: Array = raw[(largest > LIKELY[0]) & (largest < LIKELY[1])]
    assert len(usable), f"no random block of {name} is usable"
    return usable


def paged(
    rng: np.random.Generator,
    tokens: Sequence[int],
    lengths: Sequence[int],
    heads: tuple[int, int],
    width: tuple[int, int],
    page: int,
    idle: int = 0,
) -> Call:
    """A batch for paged_attention: request r has lengths[r] tokens, the last tokens[r] of which are its rows; then `idle` rows of none.

    heads of q and of K; width of K and of V. Pages lie in random order; what no token may see is large, so that it shows."""
    need = [-(-n // page) for n in lengths]
    numbers, columns = rng.permutation(sum(need)) + 1, max(need, default=0) + 1
    table, k, v = (
        np.zeros((len(lengths), columns), np.int32),
        *(np.full((sum(need) + 2, page, heads[1], w), UNSEEN, np.float32) for w in width),
    )
    for r, (n, begin) in enumerate(zip(lengths, np.cumsum([0, *need]), strict=False)):
        table[r, : need[r]] = own = numbers[begin : begin + need[r]]
        for pages in (k, v):
            values = np.full((len(own) * page, *pages.shape[2:]), UNSEEN, np.float32)
            values[:n] = normal(rng, n, *pages.shape[2:])
            pages[own] = values.reshape(-1, *pages.shape[1:])
    index = [np.arange(n - new, n) for n, new in zip(lengths, tokens, strict=True)]
    return {
        "q": normal(rng, sum(tokens) + idle, heads[0], width[0]),
        "k_pages": k,
        "v_pages": v,
        "table": table,
        "starts": np.cumsum([0, *tokens]).astype(np.int32),
        "lengths": ints(*lengths),
        "until": np.concatenate([*index, np.zeros(idle)]).astype(np.int32),
        "scale": width[0] ** -0.5,
    }
