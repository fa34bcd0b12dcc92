"""Mixtures of experts: which experts a token goes to, and with what weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from vtcore.op import Array, Call, Tolerance, op
from vtcore.ops.exact import narrow, shares, sigmoid, wide
from vtcore.ops.inputs import cut, ints, normal, ones, sixteen, turned
from vtcore.ops.rules import first, inside, positive, unless

SCORES: dict[str, Callable[[Array], Array]] = {"softmax": shares, "sigmoid": sigmoid, "sqrtsoftplus": lambda x: np.sqrt(np.logaddexp(0, x))}
LEAST = 1e-20  # added to the sum that weights are divided by
WEIGHTS = Tolerance({"float32": 1e-5}, "float32 exponentials and sums in another order: under 100 ulp of the largest weight of the row")


def _samples(rng: np.random.Generator) -> Iterator[Call]:
    for t, e, k in ((1, 8, 2), (3, 128, 8), (5, 33, 1), (0, 16, 4), (2, 257, 6), (4, 4, 4)):
        yield {"logits": normal(rng, t, e, magnitude=2), "k": k}
        yield {"logits": normal(rng, t, e, magnitude=2), "k": k, "renormalise": False, "scale": 2.5}
    for score in SCORES:
        call = {"logits": normal(rng, 7, 64, magnitude=2), "k": 6, "score": score}
        yield call | {"bias": normal(rng, 64), "scale": 1.8}
        yield call | {"bias": normal(rng, 64), "groups": 8, "keep": 3}
        yield call | {"groups": 4, "keep": 2, "renormalise": False}
        yield call | {"chosen": rng.integers(0, 64, (7, 6)).astype(np.int32), "renormalise": score == "sigmoid"}
    yield {"logits": np.zeros((3, 40), np.float32), "k": 5}
    yield {"logits": rng.integers(-2, 3, (9, 40)).astype(np.float32), "k": 7, "score": "sigmoid"}
    yield {"logits": rng.integers(-2, 3, (9, 40)).astype(np.float32), "k": 7, "groups": 5, "keep": 2}
    yield {"logits": normal(rng, 4, 20, magnitude=1e4), "k": 3}
    holes = normal(rng, 3, 20)
    holes[0, ::2], holes[1, 3], holes[2] = -np.inf, np.nan, -0.0
    yield {"logits": holes, "k": 12}
    yield {"logits": cut(normal(rng, 3, 24)), "k": 2, "bias": cut(normal(rng, 24))}
    yield {"logits": turned(normal(rng, 3, 24)), "k": 2}
    yield from sixteen({"logits": normal(rng, 3, 24), "k": 3, "bias": normal(rng, 24), "score": "sigmoid"})


def _errors() -> Iterator[tuple[Call, str]]:
    good: Call = {"logits": ones(2, 8), "k": 2}
    yield good | {"k": 9}, "k is 9; it must be from 1 to 8, the number of experts"
    yield good | {"score": "relu"}, "score is 'relu'; it must be softmax, sigmoid or sqrtsoftplus"
    yield good | {"groups": 3, "keep": 2}, "groups is 3; it must divide the number of experts, 8"
    yield good | {"groups": 4, "keep": 5}, "keep is 5; it must be from 1 to 4"
    yield good | {"groups": 8, "keep": 2, "bias": ones(8)}, "groups of one expert"
    yield good | {"groups": 4, "keep": 1, "k": 3}, "k is 3; the groups that are kept have 2 experts"
    yield good | {"scale": 0.0}, "scale is 0.0; it must be over 0"
    yield good | {"bias": ones(7)}, "axis E of bias"
    yield good | {"chosen": ints(0, 8).reshape(1, 2).repeat(2, 0)}, "chosen holds 8; it must be in [0, 8)"
    yield good | {"chosen": np.zeros((2, 3), np.int32)}, "axis k of chosen is 3; it must be 2"


def _rules(
    logits: Array, k: int, score: str, bias: Array | None, groups: int, keep: int, scale: float, chosen: Array | None, **_: object
) -> str | None:
    count = logits.shape[-1]
    size = count // groups if groups > 0 else 0
    return first(
        unless(1 <= k <= count, f"k is {k}; it must be from 1 to {count}, the number of experts"),
        unless(score in SCORES, f"score is {score!r}; it must be softmax, sigmoid or sqrtsoftplus"),
        positive(groups=groups, scale=scale),
        unless(size * groups == count, f"groups is {groups}; it must divide the number of experts, {count}"),
        unless(1 <= keep <= groups, f"keep is {keep}; it must be from 1 to {groups}, the number of groups"),
        unless(groups == 1 or bias is None or size > 1, "groups of one expert have no best two; with a bias groups must be larger"),
        unless(groups == 1 or k <= keep * size, f"k is {k}; the groups that are kept have {keep * size} experts"),
        None if chosen is None or chosen.shape[-1] == k else f"axis k of chosen is {chosen.shape[-1]}; it must be {k}",
        inside("chosen", chosen, 0, count),
    )


@op(
    "logits[T E], bias[E]?, chosen[T C]:i? -> [T k], [T k]:i",
    samples=_samples,
    errors=_errors,
    tolerance=WEIGHTS,
    check=_rules,
)
def route(
    logits: Array, k: int, score: str = "softmax", bias: Array | None = None, groups: int = 1, keep: int = 1,
    renormalise: bool = True, scale: float = 1.0, chosen: Array | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """Weights [T k] and numbers [T k] of the k experts of each token, the best first; ties go to the lower number.

    logits [T E]. score: softmax (over all experts), sigmoid, or sqrtsoftplus, sqrt(ln(1 + exp(x))). bias [E]: added to the scores for the
    choice, not for the weights. groups: experts in so many equal runs, of which the best `keep` take part: by their best expert, or with a
    bias by the sum of their best two. chosen [T k]: the experts are given, and only weighed.
    weight = score / (sum of the k scores + 1e-20) if renormalise, else score; times scale. A softmax over the chosen alone (gpt-oss) is
    softmax with renormalise. NaN is chosen like -inf. Mixtral 2024, DeepSeek-V3 2024, DeepSeek-V4 2026."""
    scores = SCORES[score](wide(logits))
    ids = _best(wide(logits) if bias is None else scores + wide(bias), k, groups, keep, bias is not None) if chosen is None else chosen
    weights = np.take_along_axis(scores, np.asarray(ids, np.int64), -1)
    if renormalise:
        weights = weights / (weights.sum(-1, keepdims=True) + LEAST)
    return narrow(weights * scale), np.array(ids, np.int32, order="C")


def _best(choice: Array, k: int, groups: int, keep: int, pairs: bool) -> Array:
    """The k best of each row, of the `keep` best groups."""
    choice = np.where(np.isnan(choice), -np.inf, choice)
    if groups > 1:
        parts = choice.reshape(len(choice), groups, -1)
        strength = np.sort(parts, -1)[..., -2:].sum(-1) if pairs else parts.max(-1)
        kept = np.zeros(strength.shape, bool)
        np.put_along_axis(kept, _highest(strength, keep), True, -1)
        choice = np.where(kept[..., None], parts, -np.inf).reshape(choice.shape)
    return _highest(choice, k)


def _highest(x: Array, k: int) -> Array:
    return np.argsort(-x, axis=-1, kind="stable")[..., :k]


def _sparse_samples(rng: np.random.Generator) -> Iterator[Call]:
    for t, e, jitter in ((1, 16, 0.01), (5, 16, 0.5), (3, 33, 0.1), (0, 8, 0.01), (7, 2, 2.0)):
        yield {"logits": normal(rng, t, e, magnitude=3), "jitter": jitter}
    yield {"logits": rng.integers(-2, 3, (9, 40)).astype(np.float32), "jitter": 0.3}
    yield {"logits": -np.abs(normal(rng, 3, 24)), "jitter": 0.2}
    yield {"logits": cut(normal(rng, 3, 24)), "jitter": 0.2}
    yield {"logits": np.array([[1, -np.inf], [-np.inf, 1], [np.nan, 1], [1, np.nan]], np.float32), "jitter": 0.2}
    yield {"logits": np.array([[np.nan] * 3, [-np.inf] * 3, [np.nan, -np.inf, 1], [-np.inf, 1, np.nan]], np.float32), "jitter": 0.2}
    yield from sixteen({"logits": normal(rng, 3, 24), "jitter": 0.2})


def _sparse_errors() -> Iterator[tuple[Call, str]]:
    yield {"logits": ones(2, 1), "jitter": 0.01}, "logits has 1 experts; two are chosen"
    yield {"logits": ones(2, 8), "jitter": 0.0}, "jitter is 0.0; it must be over 0"


def _sparse_rules(logits: Array, jitter: float) -> str | None:
    return first(unless(logits.shape[-1] > 1, f"logits has {logits.shape[-1]} experts; two are chosen"), positive(jitter=jitter))


@op("logits[T E] -> [T 2], [T 2]:i", samples=_sparse_samples, errors=_sparse_errors, tolerance=WEIGHTS, check=_sparse_rules)
def route_sparse(logits: Array, jitter: float) -> tuple[Array, Array]:
    """Weights [T 2] and numbers [T 2] of the two best experts of each token, each weighed among those that come near it alone.

    logits [T E]. A logit x is near the best one b where (b - x) / max(|x|, b) <= 2 * jitter; the weight is b's share of the softmax over
    those. For the second expert the first is left out. Ties go to the lower number. NaN counts as -inf, but makes every weight that it is
    near to NaN. SparseMixer-v2, Liu and others, 2024 (Phi 3.5 MoE)."""
    x, left = wide(logits), wide(logits)
    weights, ids = np.zeros((len(x), 2)), _highest(np.where(np.isnan(x), -np.inf, x), 2).astype(np.int32)
    rows = np.arange(len(x))
    for j in range(2):
        best = left[rows, ids[:, j]][:, None]
        near = ~((best - x) / np.maximum(np.abs(x), best) > 2 * jitter)
        weights[:, j] = 1 / np.where(near, np.exp(left - best), 0).sum(-1)
        left[rows, ids[:, j]] = -np.inf
    return narrow(weights), ids
