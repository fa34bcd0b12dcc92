"""What is done to logits before a token is taken. Rows are requests [R], columns the vocabulary [V]; a row's parameters are its own."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vtcore.op import Array, Call, Tolerance, op
from vtcore.ops.exact import narrow, shares, wide
from vtcore.ops.inputs import ints, normal, ones, sixteen, turned, vocabularies
from vtcore.ops.rules import between, first, inside

GREEDY = 1e-5  # a temperature below this means: take the best, so the logits stay as they are
INF = np.inf
TINY = float(np.finfo(np.float32).tiny)
CHANGED = Tolerance({"float32": 1e-6}, "a few float32 operations for each value: under 10 ulp of the largest logit of the row")
KEPT = Tolerance({"float32": 0.0}, "values are kept as they are, or become -inf", atol=0.0)


def _per_row(rng: np.random.Generator, name: str, values: tuple[float, ...]) -> Iterator[Call]:
    """Every array of logits with one parameter for each row, round and round."""
    for x in vocabularies(rng):
        yield {"logits": x, name: np.resize(np.array(values, np.float32), len(x))}
    yield from sixteen({"logits": normal(rng, 2, 24), name: np.array(values[:2], np.float32)})


def _per_row_errors(name: str, bad: float) -> Iterator[tuple[Call, str]]:
    yield {"logits": ones(2, 8), name: ones(3)}, f"axis R of {name}"
    yield {"logits": ones(8), name: ones(1)}, "logits has shape [8]; it must have 2 axes"
    yield {"logits": ones(2, 8), name: np.array([0.5, bad], np.float32)}, f"{name} holds {bad}"


def _penalty_samples(rng: np.random.Generator) -> Iterator[Call]:
    for x in vocabularies(rng):
        r = len(x)
        yield {
            "logits": x,
            "prompt_seen": rng.random(x.shape) < 0.3,
            "counts": rng.integers(0, 3, x.shape).astype(np.int32),
            "repetition": np.resize(np.array([1.0, 1.3, 0.7], np.float32), r),
            "frequency": np.resize(np.array([0.0, 0.5, -2.0], np.float32), r),
            "presence": np.resize(np.array([0.0, 1.5, 0.0, -1.0], np.float32), r),
        }
    zero = {"prompt_seen": np.zeros((1, 9), bool), "counts": np.zeros((1, 9), np.int32)}
    yield from sixteen({"logits": normal(rng, 1, 9)} | zero | {n: ones(1) for n in ("repetition", "frequency", "presence")})


def _penalty_errors() -> Iterator[tuple[Call, str]]:
    good = {"logits": ones(1, 9), "prompt_seen": np.zeros((1, 9), bool), "counts": np.zeros((1, 9), np.int32)}
    good |= {n: ones(1) for n in ("repetition", "frequency", "presence")}
    yield good | {"prompt_seen": ones(1, 9)}, "prompt_seen is float32; it must be bool"
    yield good | {"counts": np.zeros((1, 8), np.int32)}, "axis V of counts"
    yield good | {"counts": np.full((1, 9), -1)}, "counts holds -1"
    yield good | {"repetition": np.zeros(1, np.float32)}, "repetition holds 0.0"
    yield good | {"presence": ones(2)}, "axis R of presence"


@op(
    "logits[R V], prompt_seen[R V]:b, counts[R V]:i, repetition[R], frequency[R], presence[R] -> [R V]",
    samples=_penalty_samples,
    errors=_penalty_errors,
    tolerance=CHANGED,
    check=lambda counts, repetition, **_: first(inside("counts", counts, 0, INF), inside("repetition", repetition, TINY, INF)),
)
def apply_penalties(logits: Array, prompt_seen: Array, counts: Array, repetition: Array, frequency: Array, presence: Array) -> Array:
    """Make tokens that occurred less likely. logits, prompt_seen and counts [R V]; repetition, frequency and presence [R].

    Repetition, for tokens of the prompt or the output: logit / penalty if it is positive, else logit * penalty, once (CTRL, Keskar and
    others, 2019). Then, for tokens of the output: minus frequency * count, minus presence."""
    x, rate, used = wide(logits), wide(repetition)[:, None], counts > 0
    x = np.where(prompt_seen | used, np.where(x > 0, x / rate, x * rate), x)
    return narrow(x - wide(frequency)[:, None] * counts - wide(presence)[:, None] * used)


def _bias_samples(rng: np.random.Generator) -> Iterator[Call]:
    for x in vocabularies(rng):
        n = 5 if len(x) else 0
        rows, ids = rng.integers(0, max(len(x), 1), n), rng.integers(0, x.shape[1], n)
        yield {"logits": x, "rows": rows.astype(np.int32), "ids": ids.astype(np.int32), "values": normal(rng, n, magnitude=100)}
    twice = {"rows": ints(1, 0, 1), "ids": ints(3, 0, 3), "values": np.array([-INF, 2.5, -4], np.float32)}
    yield {"logits": normal(rng, 2, 8)} | twice
    yield from sixteen({"logits": normal(rng, 2, 8)} | twice)


def _bias_errors() -> Iterator[tuple[Call, str]]:
    good = {"logits": ones(2, 8), "rows": ints(0, 1), "ids": ints(0, 7), "values": ones(2)}
    yield good | {"ids": ints(0, 8)}, "ids holds 8; it must be in [0, 8)"
    yield good | {"ids": ints(-1, 0)}, "ids holds -1"
    yield good | {"rows": ints(0, 2)}, "rows holds 2"
    yield good | {"values": ones(3)}, "axis N of values"


def _bias_rules(logits: Array, rows: Array, ids: Array, **_: object) -> str | None:
    return first(inside("rows", rows, 0, logits.shape[0]), inside("ids", ids, 0, logits.shape[1]))


@op(
    "logits[R V], rows[N]:i, ids[N]:i, values[N] -> [R V]",
    samples=_bias_samples,
    errors=_bias_errors,
    tolerance=CHANGED,
    check=_bias_rules,
)
def apply_logit_bias(logits: Array, rows: Array, ids: Array, values: Array) -> Array:
    """logits[rows[n], ids[n]] + values[n], for each n; what is named twice gets both. logits [R V]; rows, ids and values [N]."""
    out = wide(logits)
    np.add.at(out, (rows, ids), wide(values))
    return narrow(out)


def _mask_samples(rng: np.random.Generator) -> Iterator[Call]:
    for x in vocabularies(rng):
        yield {"logits": x, "mask": rng.random(x.shape) < 0.4}
    yield {"logits": normal(rng, 2, 9), "mask": turned(np.eye(2, 9) > 0)}
    yield from sixteen({"logits": normal(rng, 2, 9), "mask": np.ones((2, 9), bool)})


def _mask_errors() -> Iterator[tuple[Call, str]]:
    yield {"logits": ones(2, 8), "mask": np.zeros((2, 7), bool)}, "axis V of mask"
    yield {"logits": ones(2, 8), "mask": np.zeros((2, 8), np.int32)}, "mask is int32; it must be bool"


@op("logits[R V], mask[R V]:b -> [R V]", samples=_mask_samples, errors=_mask_errors, tolerance=KEPT)
def apply_token_mask(logits: Array, mask: Array) -> Array:
    """-inf where the mask is true, else the logit: true excludes. logits and mask [R V]."""
    return narrow(np.where(mask, -np.inf, wide(logits)))


@op(
    "logits[R V], temperature[R] -> [R V]",
    samples=lambda rng: _per_row(rng, "temperature", (0.7, 0.0, 1.0, 1e-6, 2.5)),
    errors=lambda: _per_row_errors("temperature", -1.0),
    tolerance=CHANGED,
    check=lambda temperature, **_: inside("temperature", temperature, 0, INF),
)
def apply_temperature(logits: Array, temperature: Array) -> Array:
    """logits / temperature, row by row; a temperature under 1e-5 means greedy and leaves its row. logits [R V], temperature [R]."""
    divisor = wide(temperature)
    return narrow(wide(logits) / np.where(divisor < GREEDY, 1, divisor)[:, None])


def _top_samples(rng: np.random.Generator) -> Iterator[Call]:
    for call in _per_row(rng, "p", (0.9, 1.0, 0.3)):
        yield call | {"k": np.resize(ints(0, 5, 1), len(call["p"]))}
    x, off = normal(rng, 8, 8), np.ones(8, np.float32)
    yield {"logits": x, "k": ints(0, -1, 8, 1_000_000, 1, 2, 7, 3), "p": off}
    yield {"logits": x, "k": ints(*[0] * 8), "p": np.array([0, 1e-9, 0.2, 0.5, 0.8, 0.99, 1, 2], np.float32)}
    yield {"logits": np.zeros((3, 8), np.float32), "k": ints(3, 0, 3), "p": np.array([1, 0.3, 0.3], np.float32)}  # all equal


def _top_errors() -> Iterator[tuple[Call, str]]:
    for call, words in _per_row_errors("p", -0.5):
        yield call | {"k": np.zeros(len(call["logits"]) if call["logits"].ndim == 2 else 1, np.int32)}, words
    yield {"logits": ones(2, 8), "k": ones(2), "p": ones(2)}, "k is float32; it must be an integer type"


@op(
    "logits[R V], k[R]:i, p[R] -> [R V]",
    samples=_top_samples,
    errors=_top_errors,
    tolerance=KEPT,
    check=lambda p, **_: inside("p", p, 0, INF),
)
def apply_top_k_top_p(logits: Array, k: Array, p: Array) -> Array:
    """Keep each row's k best tokens, then of those the best that together reach probability p; the others become -inf.

    logits [R V]; k [R] (k <= 0 or >= V: all), p [R] (p >= 1: all). All tokens equal to the k-th are kept. Then a token is kept while
    those before it sum to less than p, in float64, by falling probability and among equals by index; the best always is.
    The nucleus is that of Holtzman and others, 2019."""
    out = wide(logits)
    for row, best, share in zip(out, k, wide(p), strict=True):
        if 0 < best < len(row):
            row[row < np.sort(row)[-best]] = -np.inf
        if share < 1:
            order = np.argsort(-row, kind="stable")
            before = np.cumsum(shares(row)[order]) - shares(row)[order]
            row[order[1:][before[1:] >= share]] = -np.inf
    return narrow(out)


@op(
    "logits[R V], min_p[R] -> [R V]",
    samples=lambda rng: _per_row(rng, "min_p", (0.1, 0.0, 1.0, 0.003)),
    errors=lambda: _per_row_errors("min_p", 2.0),
    tolerance=KEPT,
    check=lambda min_p, **_: between("min_p", min_p, 0, 1),
)
def apply_min_p(logits: Array, min_p: Array) -> Array:
    """-inf where the probability is under min_p times that of the row's best token: exp(logit - best) < min_p in float64.

    logits [R V], min_p [R] (0: all kept). Nguyen and others, 2024."""
    x = wide(logits)
    ratio = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf))
    return narrow(np.where(ratio < wide(min_p)[:, None], -np.inf, x))
