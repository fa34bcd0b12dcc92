"""Layers with a state of one size, whatever the length: a short convolution and gated delta nets. How states are walked: `states.py`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vtcore.op import Array, Call, Tolerance, op
from vtcore.ops.exact import narrow, sigmoid, wide
from vtcore.ops.inputs import cut, endless, normal, ones, turned
from vtcore.ops.rules import first, unless
from vtcore.ops.states import GATHERED, RUNS, fading, in_sixteen, runs, touched, walk, walk_of, walk_rules, wrong_walks

SHORT = Tolerance({"float32": 1e-5}, "float32 sums of a few products, then an exponential: under 80 ulp of the row's largest")


def _conv_samples(rng: np.random.Generator) -> Iterator[Call]:
    for case, (channels, width) in enumerate(((1, 4), (96, 4), (65, 3), (200, 2), (64, 5), (48, 4), (33, 4))):
        walked = runs(rng, case, width - 1, channels)
        t = len(RUNS[case][2])
        yield {"x": normal(rng, t, channels), "weight": normal(rng, width, channels), "bias": normal(rng, channels)} | walked
    base: Call = {"x": normal(rng, 9, 24), "weight": normal(rng, 4, 24), "bias": None} | runs(rng, 3, 3, 24)
    yield base
    yield base | {"activate": False}
    yield base | {"x": cut(base["x"]), "weight": turned(base["weight"]), "activate": False}
    yield base | {"x": base["x"] * 1e4}
    yield from in_sixteen(base | {"bias": normal(rng, 24)})


def _conv_errors() -> Iterator[tuple[Call, str]]:
    good: Call = {"x": ones(2, 8), "weight": ones(4, 8), "bias": None} | walk_of(3, 8)
    yield from ((good | wrong, words) for wrong, words in wrong_walks())
    yield good | {"state": good["state"].astype(np.float16)}, "state is float16; it must be float32"
    yield good | {"weight": ones(3, 8)}, "axis K-1 of state"
    yield good | {"weight": ones(4, 7)}, "axis C of weight"
    yield good | {"bias": ones(7)}, "axis C of bias"
    yield good | {"activate": 1}, "activate is int 1"


@op(
    "x[T C], weight[K C], bias[C]?, state[N K-1 C], source[R]:i, slots[T]:i, starts[R+1]:i -> [T C]",
    samples=_conv_samples,
    errors=_conv_errors,
    tolerance=SHORT,
    check=walk_rules,
    writes=("state",),
    touches={"state": touched},
)
def causal_conv(
    x: Array, weight: Array, bias: Array | None, state: Array, source: Array, slots: Array, starts: Array, activate: bool = True
) -> Array:
    """Each channel's last K tokens times the channel's K weights, the newest last; plus bias; with `activate`, silu of that.

    x [T C]; weight [K C]; bias [C] or None; state [N K-1 C], the K - 1 tokens before, the oldest first, changed in place; source [R], slots
    [T], starts [R + 1]: which slots are read and kept. Rows of no request are zeros. The convolution of Mamba, Gu and Dao, 2023."""
    rows, taps, out = wide(x), wide(weight), np.zeros(x.shape)

    def step(t: int, past: Array) -> Array:
        window = np.concatenate([past, rows[t : t + 1]])
        total = (window * taps).sum(0) + (0.0 if bias is None else wide(bias))
        out[t] = total * sigmoid(total) if activate else total
        return window[1:]

    walk(state, source, slots, starts, step)
    return narrow(out)


def _delta_samples(rng: np.random.Generator) -> Iterator[Call]:
    for case, sizes in enumerate(((1, 1, 1, 1), (2, 4, 16, 16), (3, 3, 33, 8), (1, 2, 24, 40), (2, 2, 8, 64), (2, 6, 5, 7), (1, 1, 4, 4))):
        yield _delta(rng, case, *sizes, channels=case % 2 == 1)
    yield _delta(rng, 3, 16, 32, 128, 128, channels=False)
    base = _delta(rng, 3, 2, 4, 16, 24, channels=True)
    yield base | {"turns": True}
    yield base | {"q": cut(base["q"]), "v": turned(base["v"])}
    yield base | {"decay": base["decay"] * 1e3, "beta": base["beta"] * 2}
    yield base | {"decay": np.full_like(base["decay"], -200), "v": endless(base["v"])}
    yield from in_sixteen(base)


def _delta(rng: np.random.Generator, case: int, few: int, heads: int, depth: int, width: int, channels: bool) -> Call:
    """Keys of length 1, as the layers have them: longer ones let a state grow without bounds."""
    t = len(RUNS[case][2])
    q, k = (a / np.linalg.norm(a, axis=-1, keepdims=True) for a in (normal(rng, t, few, depth), normal(rng, t, few, depth)))
    decay = -np.abs(normal(rng, t, heads, depth if channels else 1))
    beta = rng.uniform(0, 1, (t, heads)).astype(np.float32)
    return {"q": q, "k": k, "v": normal(rng, t, heads, width), "decay": decay, "beta": beta} | runs(rng, case, heads, depth, width)


def _delta_errors() -> Iterator[tuple[Call, str]]:
    good = {"q": ones(2, 2, 4), "k": ones(2, 2, 4), "v": ones(2, 4, 3), "decay": ones(2, 4, 1), "beta": ones(2, 4)} | walk_of(4, 4, 3)
    yield from ((good | wrong, words) for wrong, words in wrong_walks())
    yield good | {"state": good["state"].astype(np.float16)}, "state is float16; it must be float32"
    yield good | {"q": ones(2, 3, 4), "k": ones(2, 3, 4)}, "v has 4 heads; it must be a multiple of the 3 of q and k"
    yield good | {"decay": ones(2, 4, 2)}, "decay has 2 numbers a head; it must have 1 or 4"
    yield good | {"beta": ones(2, 2)}, "axis H of beta"
    yield good | {"k": ones(2, 2, 3)}, "axis D of k"
    yield good | {"state": ones(3, 4, 3, 4)}, "of state"


def _delta_rules(q: Array, v: Array, decay: Array, turns: bool, **walked: Array) -> str | None:
    few, heads, depth, numbers = q.shape[1], v.shape[1], q.shape[2], decay.shape[2]
    return first(
        unless(few > 0 and heads % few == 0, f"v has {heads} heads; it must be a multiple of the {few} of q and k"),
        unless(numbers in (1, depth), f"decay has {numbers} numbers a head; it must have 1 or {depth}"),
        walk_rules(**walked),
    )


@op(
    "q[T G D], k[T G D], v[T H V], decay[T H d], beta[T H], state[N H D V], source[R]:i, slots[T]:i, starts[R+1]:i -> [T H V]",
    samples=_delta_samples,
    errors=_delta_errors,
    tolerance=GATHERED,
    check=_delta_rules,
    writes=("state",),
    touches={"state": touched},
)
def gated_delta(
    q: Array, k: Array, v: Array, decay: Array, beta: Array, state: Array, source: Array, slots: Array, starts: Array, turns: bool = False
) -> Array:
    """S = exp(decay) S; then S = S + k (beta (v - S^T k))^T, rounded to float32; out = S^T q. For each head a matrix S [D V].

    q and k [T G D], v [T H V]: a head of q and k serves H / G heads of v, neighbours, or with `turns` every G-th; decay [T H d] logarithms,
    one a head (d = 1) or one a channel of k (d = D); beta [T H]; state [N H D V], changed in place; source [R], slots [T], starts [R + 1]:
    which slots are read and kept. Rows of no request are zeros. Gated delta networks, Yang, Kautz and Hatamizadeh, 2024; by channel: Kimi
    Linear, 2025."""
    share = v.shape[1] // q.shape[1]
    queries, keys = (np.tile(wide(a), (1, share, 1)) if turns else np.repeat(wide(a), share, 1) for a in (q, k))
    values, kept, betas, out = wide(v), fading(wide(decay)), wide(beta), np.zeros(v.shape)

    def step(t: int, s: Array) -> Array:
        s = s * kept[t][:, :, None]
        change = betas[t][:, None] * (values[t] - np.einsum("hdv,hd->hv", s, keys[t]))
        s = wide(narrow(s + keys[t][:, :, None] * change[:, None, :]))
        out[t] = np.einsum("hdv,hd->hv", s, queries[t])
        return s

    walk(state, source, slots, starts, step)
    return narrow(out)
