"""From logits to tokens. Rows are requests [R], columns the vocabulary [V]; the parameters of a row are its own."""

from __future__ import annotations

import numpy as np

from vtcore.op import Array, op
from vtcore.ops.exact import narrow, shares, wide
from vtcore.ops.inputs import nothing, nothing_wrong

GREEDY = 1e-5  # a temperature below this means: take the best, so the logits stay as they are


@op(
    "logits[R V], prompt_seen[R V]:b, counts[R V]:i, repetition[R], frequency[R], presence[R] -> [R V]",
    samples=nothing,
    errors=nothing_wrong,
)
def apply_penalties(logits: Array, prompt_seen: Array, counts: Array, repetition: Array, frequency: Array, presence: Array) -> Array:
    """Make tokens that occurred less likely. logits, prompt_seen and counts [R V]; repetition, frequency and presence [R].

    Repetition, for tokens of the prompt or the output: logit / penalty if it is positive, else logit * penalty, once (CTRL, Keskar and
    others, 2019). Then, for tokens of the output: minus frequency * count, minus presence."""
    x, rate, used = wide(logits), wide(repetition)[:, None], counts > 0
    x = np.where(prompt_seen | used, np.where(x > 0, x / rate, x * rate), x)
    return narrow(x - wide(frequency)[:, None] * counts - wide(presence)[:, None] * used)


@op("logits[R V], rows[N]:i, ids[N]:i, values[N] -> [R V]", samples=nothing, errors=nothing_wrong)
def apply_logit_bias(logits: Array, rows: Array, ids: Array, values: Array) -> Array:
    """logits[rows[n], ids[n]] + values[n], for each n; what is named twice gets both. logits [R V]; rows, ids and values [N]."""
    out = wide(logits)
    np.add.at(out, (rows, ids), wide(values))
    return narrow(out)


@op("logits[R V], mask[R V]:b -> [R V]", samples=nothing, errors=nothing_wrong)
def apply_token_mask(logits: Array, mask: Array) -> Array:
    """-inf where the mask is true, else the logit: true excludes. logits and mask [R V]."""
    return narrow(np.where(mask, -np.inf, wide(logits)))


@op("logits[R V], temperature[R] -> [R V]", samples=nothing, errors=nothing_wrong)
def apply_temperature(logits: Array, temperature: Array) -> Array:
    """logits / temperature, row by row; a temperature under 1e-5 means greedy and leaves its row. logits [R V], temperature [R]."""
    divisor = wide(temperature)
    return narrow(wide(logits) / np.where(divisor < GREEDY, 1, divisor)[:, None])


@op("logits[R V], k[R]:i, p[R] -> [R V]", samples=nothing, errors=nothing_wrong)
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


@op("logits[R V], min_p[R] -> [R V]", samples=nothing, errors=nothing_wrong)
def apply_min_p(logits: Array, min_p: Array) -> Array:
    """-inf where the probability is under min_p times that of the row's best token: exp(logit - best) < min_p in float64.

    logits [R V], min_p [R] (0: all kept). Nguyen and others, 2024."""
    x = wide(logits)
    ratio = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf))
    return narrow(np.where(ratio < wide(min_p)[:, None], -np.inf, x))


@op("x[... V] -> [... V]", samples=nothing, errors=nothing_wrong)
def softmax(x: Array) -> Array:
    """exp(x) / sum of exp(x) over the last axis. x [... V]. A row of -inf alone gives zeros; one with NaN or +inf gives NaN."""
    return narrow(shares(wide(x)))


@op("x[... V] -> [... V]", samples=nothing, errors=nothing_wrong)
def log_softmax(x: Array) -> Array:
    """x - log(sum of exp(x)) over the last axis. x [... V]. A row of -inf alone stays so; one with NaN or +inf gives NaN."""
    rows = wide(x)
    top = rows.max(-1, keepdims=True, initial=-np.inf)
    rows = rows - np.where(np.isneginf(top), 0, top)
    total = np.exp(rows).sum(-1, keepdims=True)
    return narrow(rows - np.log(np.where(total == 0, 1, total)))


@op("x[... V] -> [...]:i", samples=nothing, errors=nothing_wrong)
def argmax(x: Array) -> Array:
    """The index of the largest value of the last axis, the lowest on ties; the first NaN where there is one. x [... V], V > 0."""
    return np.array(wide(x).argmax(-1), np.int32)


@op("x[... V] -> [... k], [... k]:i", samples=nothing, errors=nothing_wrong)
def top_k(x: Array, k: int) -> tuple[Array, Array]:
    """The k largest values of the last axis, falling, and their indices; among equals the lowest index first. x [... V], k <= V."""
    rows = wide(x)
    ids = np.argsort(-rows, axis=-1, kind="stable")[..., :k]
    return narrow(np.take_along_axis(rows, ids, -1)), np.array(ids, np.int32, order="C")


@op("probs[R V], seeds[R]:i, steps[R]:i -> [R]:i", samples=nothing, errors=nothing_wrong)
def random_sample(probs: Array, seeds: Array, steps: Array) -> Array:
    """One token a row, each with its probability: argmax(prob / q) in float64, q from the exponential distribution; the exponential race.

    probs [R V]; seeds (64 bits) and steps [R]. q = -log((h >> 12) / 2^52 + 2^-53), h = mix(mix(mix(seed) + step) + index) in uint64,
    mix(z) the finaliser of SplitMix64 after adding 0x9E3779B97F4A7C15 (Steele, Lea and Flood, 2014). So a row's draw depends on its
    own seed and step alone. Ties go to the lowest index."""
    index = np.arange(probs.shape[1], dtype=np.uint64)
    out = np.zeros(len(probs), np.int32)
    for r, row in enumerate(wide(probs)):
        start = _mix(_mix(seeds[r : r + 1].astype(np.uint64)) + steps[r : r + 1].astype(np.uint64))
        uniform = (_mix(start + index) >> np.uint64(12)) * 2.0**-52 + 2.0**-53
        out[r] = np.argmax(row / -np.log(uniform))
    return out


def _mix(z: Array) -> Array:
    z = z + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
