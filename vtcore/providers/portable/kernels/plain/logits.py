"""Penalties, biases and masks, row by row of [R V], in float64 as their definitions compute."""

from __future__ import annotations

import numpy as np

from vtcore import ops
from vtcore.memory import HOST
from vtcore.providers.portable.arrays import float32_rows, not_float
from vtcore.providers.portable.kernels.plain.kernel import not_int32, plain, recording
from vtcore.providers.portable.kernels.plain.words import (
    BYTE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    Array,
    array,
    claim,
    copy,
    floats,
    helper,
    words,
)
from vtcore.providers.portable.provider import Portable
from vtcore.tensor import Tensor, empty, of

INF = np.inf


@plain("logits seen counts repetition frequency presence width rows -> out")
def penalised(table: int, thread: int, threads: int) -> None:
    """apply_penalties."""
    w = words(table)
    width, rows = w[6], w[7]
    r = claim(table)
    while r < rows:
        seen, counts = array(w[1] + r * width, width, BYTE), array(w[2] + 4 * r * width, width, INT)
        numbers = (array(w[3], rows, FLOAT)[r], array(w[4], rows, FLOAT)[r], array(w[5], rows, FLOAT)[r])
        penalise(floats(w[0], r, width), seen, counts, numbers, floats(w[8], r, width))
        r = claim(table)


@helper
def penalise(x: Array, seen: Array, counts: Array, numbers: tuple[float, float, float], out: Array) -> None:
    """One row."""
    repetition, frequency, presence = DOUBLE(numbers[0]), DOUBLE(numbers[1]), DOUBLE(numbers[2])
    for i in range(x.size):
        v, count = DOUBLE(x[i]), DOUBLE(counts[i])
        used = DOUBLE(1.0 if count > 0 else 0.0)
        if seen[i] != 0 or count > 0:
            v = v / repetition if v > 0 else v * repetition
        out[i] = v - frequency * count - presence * used


@plain("logits keys values n width rows -> out")
def biased(table: int, thread: int, threads: int) -> None:
    """apply_logit_bias, with keys (row * width + id) that never fall."""
    w = words(table)
    n, width, rows = w[3], w[4], w[5]
    keys, values = array(w[1], n, LONG), array(w[2], n, FLOAT)
    r = claim(table)
    while r < rows:
        out = floats(w[6], r, width)
        copy(floats(w[0], r, width), out)
        add_biases(out, keys, values, r * width)
        r = claim(table)


@helper
def add_biases(out: Array, keys: Array, values: Array, begin: int) -> None:
    """The biases of the row whose first key is `begin`; those of one token are summed up before the one rounding."""
    i = 0
    while i < keys.size:
        at, total = keys[i] - begin, DOUBLE(0)
        if at < 0 or at >= out.size:
            i += 1
            continue
        total = DOUBLE(out[at])
        while i < keys.size and keys[i] - begin == at:
            total += values[i]
            i += 1
        out[at] = total


@plain("logits mask width rows -> out")
def masked(table: int, thread: int, threads: int) -> None:
    """apply_token_mask."""
    w = words(table)
    width, rows = w[2], w[3]
    r = claim(table)
    while r < rows:
        x, out, mask = floats(w[0], r, width), floats(w[4], r, width), array(w[1] + r * width, width, BYTE)
        for i in range(width):
            out[i] = -INF if mask[i] != 0 else x[i]
        r = claim(table)


def _flags(mask: Tensor) -> Tensor:
    """Of any layout: in rows."""
    return mask if mask.contiguous else of(mask.bare())


def _bias_keys(rows: Tensor, ids: Tensor, values: Tensor, width: int) -> tuple[Tensor, Tensor]:
    keys = rows.bare().astype(np.int64) * width + ids.bare()
    order = np.argsort(keys, kind="stable")
    return of(keys[order]), of(values.bare().astype(np.float32)[order])


def register(p: Portable) -> None:
    """apply_penalties, apply_logit_bias, apply_token_mask."""

    def turned(*flags: Tensor) -> str | None:
        return None if all(t.contiguous for t in flags) else recording(p)

    def no_penalties(prompt_seen: Tensor, counts: Tensor, **floats: Tensor) -> str | None:
        return not_float(**floats) or not_int32(counts=counts) or turned(prompt_seen, counts)

    @p.kernel(ops.apply_penalties, declines=no_penalties)
    def apply_penalties(
        logits: Tensor, prompt_seen: Tensor, counts: Tensor, repetition: Tensor, frequency: Tensor, presence: Tensor
    ) -> Tensor:
        x, out, (rows, width) = float32_rows(p, logits), empty(HOST, logits.shape), logits.shape
        numbers = [float32_rows(p, t) for t in (repetition, frequency, presence)]
        p.launch(penalised, [x, _flags(prompt_seen), _flags(counts), *numbers, width, rows, out], out.size)
        return out

    @p.kernel(ops.apply_logit_bias, declines=lambda logits, values, **_: not_float(logits=logits, values=values) or recording(p))
    def apply_logit_bias(logits: Tensor, rows: Tensor, ids: Tensor, values: Tensor) -> Tensor:
        x, out, (height, width) = float32_rows(p, logits), empty(HOST, logits.shape), logits.shape
        p.launch(biased, [x, *_bias_keys(rows, ids, values, width), ids.size, width, height, out], out.size)
        return out

    @p.kernel(ops.apply_token_mask, declines=lambda logits, mask: not_float(logits=logits) or turned(mask))
    def apply_token_mask(logits: Tensor, mask: Tensor) -> Tensor:
        x, out, (rows, width) = float32_rows(p, logits), empty(HOST, logits.shape), logits.shape
        p.launch(masked, [x, _flags(mask), width, rows, out], out.size)
        return out
