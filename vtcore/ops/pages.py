"""The writes into paged caches.

A cache is [P S ...]: P pages of S entries each. A slot [T] says where a token writes: page * S + place, -1 for nowhere. Pages hold floats;
or 8-bit floats, of 4 bits of exponent and 3 of mantissa or of 5 and 2 (Micikevicius and others, FP8 formats for deep learning, 2022), which
aren't scaled; or int8 with a scale for each entry and head."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np

from vtcore.op import Array, Call, Tolerance, op
from vtcore.ops.exact import narrow
from vtcore.ops.inputs import SIXTEEN, cut, extreme, ints, normal, ones, sixteen, turned
from vtcore.ops.rules import first, inside, unless

STORED = Tolerance({"float32": 0.0}, "values are copied, or rounded once to the dtype of the pages", atol=0.0)
FLOAT8 = {np.dtype(ml_dtypes.float8_e4m3fn): 448.0, np.dtype(ml_dtypes.float8_e5m2): 57344.0}  # with the largest of each
INT8 = np.dtype(np.int8)
CODES = 127  # the largest int8 code, and with a minus the smallest


def _write_samples(rng: np.random.Generator) -> Iterator[Call]:
    slots = ints(4, -1, 9, 11, 0)
    for dtype in (np.dtype(np.float32), *SIXTEEN, *FLOAT8):
        yield {"pages": normal(rng, 3, 4, 2, 16).astype(dtype), "values": normal(rng, 5, 2, 16), "slots": slots}
    for dtype in FLOAT8:
        for magnitude in (1e-5, 1e-2, 200.0, 1e6):  # subnormal, and too large
            yield {"pages": normal(rng, 3, 4, 33).astype(dtype), "values": normal(rng, 5, 33, magnitude=magnitude), "slots": slots}
        pages = normal(rng, 3, 2, 4, 16).astype(dtype).swapaxes(1, 2)
        yield {"pages": pages, "values": extreme(rng, 5, 2, 16), "slots": slots}
    yield {"pages": normal(rng, 5, 1, 33), "values": extreme(rng, 3, 33), "slots": ints(2, 2, -1)}
    yield {"pages": normal(rng, 2, 4), "values": normal(rng, 1), "slots": ints(7)}
    yield {"pages": normal(rng, 2, 4, 8), "values": normal(rng, 0, 8), "slots": ints()}
    yield {"pages": normal(rng, 3, 2, 4, 16).swapaxes(1, 2), "values": cut(normal(rng, 5, 2, 16)), "slots": slots}
    yield {"pages": normal(rng, 3, 4, 24)[..., 8:], "values": turned(normal(rng, 5, 16)), "slots": slots}
    yield from sixteen({"pages": normal(rng, 3, 4, 16), "values": normal(rng, 5, 16), "slots": slots})


def _write_errors() -> Iterator[tuple[Call, str]]:
    good = {"pages": ones(3, 4, 8), "values": ones(2, 8), "slots": ints(0, 11)}
    yield good | {"slots": ints(0, 12)}, "slots holds 12; it must be in [-1, 12)"
    yield good | {"slots": ints(-2, 0)}, "slots holds -2"
    yield good | {"values": ones(2, 2, 4)}, "values has shape [2, 2, 4]; the axes in place of ... must be [8]"
    yield good | {"slots": ints(0)}, "axis T of slots"
    yield good | {"pages": ones(3, 4, 8).astype(INT8)}, "pages is int8, which write_pages_q8 writes"
    yield good | {"pages": ones(3, 4, 8).astype(np.int32)}, "pages is int32; it must be float32, float16, bfloat16, float8_e4m3fn"


def _written(pages: Array, slots: Array, **_: object) -> Array | None:
    return np.unique(slots[slots >= 0] // pages.shape[1]) if isinstance(slots, np.ndarray) else None


def _slots(pages: Array, slots: Array) -> str | None:
    return inside("slots", slots, -1, pages.shape[0] * pages.shape[1])


@op(
    "pages[P S ...]:c, values[T ...], slots[T]:i -> ()",
    samples=_write_samples,
    errors=_write_errors,
    tolerance=STORED,
    check=lambda pages, slots, **_: first(
        unless(pages.dtype != INT8, "pages is int8, which write_pages_q8 writes: with a scale for each entry and head"),
        _slots(pages, slots),
    ),
    writes=("pages",),
    touches={"pages": _written},
)
def write_pages(pages: Array, values: Array, slots: Array) -> None:
    """pages[slot // S, slot % S] = values[t] for each token whose slot is not negative, rounded to the dtype of the pages.

    pages [P S ...], changed in place; values [T ...]; slots [T] in [-1, P * S). Of a slot that is named twice the last token counts.
    To 8-bit floats a value is rounded to nearest, ties to even, and one that is too large becomes the largest: 448 in float8_e4m3fn,
    57344 in float8_e5m2."""
    for slot, value in zip(slots, _fitting(narrow(values), pages.dtype), strict=True):
        if slot >= 0:
            pages[slot // pages.shape[1], slot % pages.shape[1]] = value


def _fitting(values: Array, dtype: np.dtype[np.generic]) -> Array:
    """float32 values in the range of an 8-bit float; for other dtypes as they are."""
    largest = FLOAT8.get(dtype)
    return values if largest is None else np.clip(values, -largest, largest)


def _q8_samples(rng: np.random.Generator) -> Iterator[Call]:
    slots = ints(4, -1, 9, 11, 0)
    for width, magnitude in ((16, 1.0), (33, 1e4), (1, 1e-6), (64, 1e-30)):
        yield _coded(3, 4, 2, width) | {"values": normal(rng, 5, 2, width, magnitude=magnitude), "slots": slots}
    yield _coded(3, 4, 2, 24) | {"values": np.zeros((5, 2, 24), np.float32), "slots": ints(4, 4, 4, 0, -1)}
    yield _coded(3, 4, 2, 16) | {"values": cut(normal(rng, 5, 2, 16)), "slots": slots}
    yield _coded(3, 4, 1, 8) | {"values": normal(rng, 0, 1, 8), "slots": ints()}
    lying = np.zeros((3, 2, 16, 4), np.int8).transpose(0, 3, 1, 2)
    yield _coded(3, 4, 2, 16) | {"pages": lying, "values": turned(normal(rng, 5, 2, 16)), "slots": slots}
    for dtype in SIXTEEN:
        yield _coded(3, 4, 2, 16) | {"values": normal(rng, 5, 2, 16).astype(dtype), "slots": slots}


def _coded(pages: int, page: int, heads: int, width: int) -> Call:
    return {"pages": np.full((pages, page, heads, width), 99, np.int8), "scales": ones(pages, page, heads)}


def _q8_errors() -> Iterator[tuple[Call, str]]:
    good = _coded(3, 4, 2, 8) | {"values": ones(2, 2, 8), "slots": ints(0, 11)}
    yield good | {"slots": ints(0, 12)}, "slots holds 12; it must be in [-1, 12)"
    yield good | {"pages": ones(3, 4, 2, 8)}, "pages is float32; it must be int8"
    yield good | {"scales": ones(3, 4, 1)}, "axis H of scales"
    yield good | {"scales": ones(3, 4, 2).astype(np.float16)}, "scales is float16; it must be float32"
    yield good | {"values": ones(2, 8)}, "values has shape [2, 8]"


@op(
    "pages[P S H D]:c, scales[P S H]:c, values[T H D], slots[T]:i -> ()",
    samples=_q8_samples,
    errors=_q8_errors,
    tolerance=STORED,
    check=lambda pages, scales, slots, **_: first(
        unless(pages.dtype == INT8, f"pages is {pages.dtype}; it must be int8"),
        unless(scales.dtype == np.float32, f"scales is {scales.dtype}; it must be float32"),
        _slots(pages, slots),
    ),
    writes=("pages", "scales"),
    touches={"pages": _written, "scales": _written},
)
def write_pages_q8(pages: Array, scales: Array, values: Array, slots: Array) -> None:
    """As write_pages, in 8 bits: scales[page, place] = max |values[t]| / 127 of each head, and pages[page, place] = values[t] / scale,
    rounded to nearest, ties to even.

    pages [P S H D] int8 and scales [P S H] float32, changed in place; values [T H D]; slots [T] in [-1, P * S). Both quotients are of
    float32. One that is no number has the code 0: so a head of zeros reads as zeros, and one with a NaN or an infinity as NaN."""
    for slot, value in zip(slots, narrow(values), strict=True):
        if slot >= 0:
            place = slot // pages.shape[1], slot % pages.shape[1]
            scales[place] = scale = np.abs(value).max(-1, initial=0) / np.float32(CODES)
            with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
                codes = np.rint(value / scale[:, None])
            pages[place] = np.clip(np.nan_to_num(codes, nan=0), -CODES, CODES)
