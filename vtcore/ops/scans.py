"""Selective scans of state space models. How states are walked: `states.py`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vtcore.op import Array, Call, op
from vtcore.ops.exact import narrow, wide
from vtcore.ops.inputs import cut, endless, normal, ones, turned
from vtcore.ops.rules import first, unless
from vtcore.ops.states import GATHERED, RUNS, fading, in_sixteen, runs, touched, walk, walk_of, walk_rules, wrong_walks


def _scan_samples(rng: np.random.Generator) -> Iterator[Call]:
    for case, sizes in enumerate(
        ((1, 1, 1, 1), (2, 8, 16, 16), (3, 3, 33, 8), (1, 4, 24, 40), (2, 2, 64, 128), (2, 6, 5, 7), (1, 1, 4, 4))
    ):
        yield _scan(rng, case, *sizes)
    base = _scan(rng, 3, 2, 4, 16, 24)
    yield base | {"dt": None}
    yield base | {"d": None}
    yield base | {"dt": None, "d": None, "x": cut(base["x"]), "b": turned(base["b"])}
    yield base | {"a": base["a"] * 1e3}
    yield base | {"dt": None, "a": np.full_like(base["a"], -200), "x": endless(base["x"])}
    yield from in_sixteen(base)


def _scan(rng: np.random.Generator, case: int, groups: int, heads: int, width: int, size: int) -> Call:
    t = len(RUNS[case][2])
    x, b, c = normal(rng, t, heads, width), normal(rng, t, groups, size), normal(rng, t, groups, size)
    rest = {"dt": np.abs(normal(rng, t, heads)), "a": -np.abs(normal(rng, heads)), "d": normal(rng, heads)}
    return {"x": x, "b": b, "c": c} | rest | runs(rng, case, heads, size, width)


def _scan_errors() -> Iterator[tuple[Call, str]]:
    good: Call = {"x": ones(2, 4, 3), "dt": ones(2, 4), "a": ones(4), "b": ones(2, 2, 5), "c": ones(2, 2, 5), "d": None} | walk_of(4, 5, 3)
    yield from ((good | wrong, words) for wrong, words in wrong_walks())
    yield good | {"state": good["state"].astype(np.float16)}, "state is float16; it must be float32"
    yield good | {"b": ones(2, 3, 5), "c": ones(2, 3, 5)}, "x has 4 heads; it must be a multiple of the 3 groups of b and c"
    yield good | {"a": ones(3)}, "axis H of a"
    yield good | {"dt": ones(2, 3)}, "axis H of dt"
    yield good | {"state": ones(3, 4, 3, 5)}, "of state"


def _scan_rules(x: Array, b: Array, **walked: Array) -> str | None:
    heads, groups = x.shape[1], b.shape[1]
    fine = groups > 0 and heads % groups == 0
    return first(unless(fine, f"x has {heads} heads; it must be a multiple of the {groups} groups of b and c"), walk_rules(**walked))


@op(
    "x[T H P], dt[T H]?, a[H], b[T G S], c[T G S], d[H]?, state[N H S P], source[R]:i, slots[T]:i, starts[R+1]:i -> [T H P]",
    samples=_scan_samples,
    errors=_scan_errors,
    tolerance=GATHERED,
    check=_scan_rules,
    writes=("state",),
    touches={"state": touched},
)
def selective_scan(
    x: Array,
    dt: Array | None,
    a: Array,
    b: Array,
    c: Array,
    d: Array | None,
    state: Array,
    source: Array,
    slots: Array,
    starts: Array,
) -> Array:
    """S = exp(dt a) S + b (dt x)^T, rounded to float32; out = S^T c + d x. For each head a matrix S [S P] with one decay.

    x [T H P]; dt [T H], None for ones; a [H]; b and c [T G S], a group serving H / G heads, neighbours; d [H] or None; state [N H S P],
    changed in place; source [R], slots [T], starts [R + 1]: which slots are read and kept. Rows of no request are zeros.
    Mamba 2, Dao and Gu, 2024. Without dt and d, and a the negated slopes: lightning attention, Qin and others, 2024."""
    share = x.shape[1] // b.shape[1]
    inputs, outputs = (np.repeat(wide(m), share, 1) for m in (b, c))
    rows, steps, out = wide(x), np.ones(x.shape[:2]) if dt is None else wide(dt), np.zeros(x.shape)
    skip = np.zeros(x.shape[1]) if d is None else wide(d)

    def step(t: int, s: Array) -> Array:
        kept = fading(steps[t] * wide(a))[:, None, None]
        s = wide(narrow(s * kept + inputs[t][:, :, None] * (steps[t][:, None] * rows[t])[:, None, :]))
        out[t] = np.einsum("hsp,hs->hp", s, outputs[t]) + skip[:, None] * rows[t]
        return s

    walk(state, source, slots, starts, step)
    return narrow(out)


def _channel_samples(rng: np.random.Generator) -> Iterator[Call]:
    for case, sizes in enumerate(((1, 1), (96, 16), (65, 8), (200, 5), (64, 16), (48, 1), (33, 4))):
        yield _channels(rng, case, *sizes)
    base = _channels(rng, 3, 24, 8)
    yield base | {"x": cut(base["x"]), "rate": turned(base["rate"])}
    yield base | {"rate": base["rate"] * 1e3}
    yield base | {"dt": np.ones_like(base["dt"]), "rate": np.full_like(base["rate"], -200), "x": endless(base["x"])}
    yield from in_sixteen(base)


def _channels(rng: np.random.Generator, case: int, channels: int, size: int) -> Call:
    t = len(RUNS[case][2])
    rest = {"b": normal(rng, t, size), "c": normal(rng, t, size), "d": normal(rng, channels)}
    x, dt, rate = normal(rng, t, channels), np.abs(normal(rng, t, channels)), -np.abs(normal(rng, size, channels))
    return {"x": x, "dt": dt, "rate": rate} | rest | runs(rng, case, size, channels)


def _channel_errors() -> Iterator[tuple[Call, str]]:
    good: Call = {"x": ones(2, 6), "dt": ones(2, 6), "rate": ones(4, 6), "b": ones(2, 4), "c": ones(2, 4), "d": ones(6)} | walk_of(4, 6)
    yield from ((good | wrong, words) for wrong, words in wrong_walks())
    yield good | {"state": good["state"].astype(np.float16)}, "state is float16; it must be float32"
    yield good | {"dt": ones(2, 5)}, "axis C of dt"
    yield good | {"rate": ones(6, 4)}, "axis C of rate"
    yield good | {"c": ones(2, 3)}, "axis S of c"
    yield good | {"d": ones(5)}, "axis C of d"


@op(
    "x[T C], dt[T C], rate[S C], b[T S], c[T S], d[C], state[N S C], source[R]:i, slots[T]:i, starts[R+1]:i -> [T C]",
    samples=_channel_samples,
    errors=_channel_errors,
    tolerance=GATHERED,
    check=lambda state, source, slots, starts, **_: walk_rules(state, source, slots, starts),
    writes=("state",),
    touches={"state": touched},
)
def channel_scan(
    x: Array, dt: Array, rate: Array, b: Array, c: Array, d: Array, state: Array, source: Array, slots: Array, starts: Array
) -> Array:
    """S = exp(dt rate) S + b (dt x), rounded to float32; out = the sum of c S over S's first axis, plus d x. A state [S] a channel.

    x and dt [T C]; rate [S C]; b and c [T S], the same for all channels; d [C]; state [N S C], changed in place; source [R], slots [T],
    starts [R + 1]: which slots are read and kept. Rows of no request are zeros. Mamba, Gu and Dao, 2023."""
    rows, steps, inputs, outputs, out = wide(x), wide(dt), wide(b), wide(c), np.zeros(x.shape)

    def step(t: int, s: Array) -> Array:
        s = wide(narrow(s * fading(steps[t] * wide(rate)) + inputs[t][:, None] * (steps[t] * rows[t])))
        out[t] = (s * outputs[t][:, None]).sum(0) + wide(d) * rows[t]
        return s

    walk(state, source, slots, starts, step)
    return narrow(out)
