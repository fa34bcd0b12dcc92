"""What ops with a state share. A state is one of N slots; slot 0 is the state of a fresh start and stays zero.

`source` [R] is the slot of the state before each request's first token, `starts` [R + 1] where its tokens begin among the T; `slots` [T] is
where the state after a token is kept, -1 for nowhere. A state is float32 after every token, so that a sequence cut anywhere, its state kept
and taken up again, gives the same bits as in one run. A slot that a request writes, a later one of the same call may read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from vtcore.op import Call, Tolerance
from vtcore.ops.exact import narrow, wide
from vtcore.ops.inputs import ints, normal, sixteen
from vtcore.ops.rules import first, inside, rising, unless

Array = np.ndarray[Any, Any]
GATHERED = Tolerance({"float32": 1e-4}, "float32 instead of float64 at each token, gathered in the state over some tens of tokens")
RUNS = (  # tokens of each request, the slot that each reads, where tokens are kept; N slots
    ((1,), (0,), (1,), 2),
    ((7,), (0,), (-1, -1, 2, -1, -1, -1, 1), 3),
    ((1, 1, 1, 1), (3, 0, 1, 2), (3, 4, 1, 2), 6),
    ((5, 0, 3, 1), (2, 1, 0, 3), (-1,) * 4 + (2, -1, -1, 4, 3), 5),
    ((2, 1), (1, 0), (1, -1, 2, -1, -1), 4),  # two rows of no request
    ((3, 3), (2, 2), (2, 2, 2, -1, 3, 1), 4),  # one that is kept where another reads
    ((), (), (), 2),
)


def runs(rng: np.random.Generator, case: int, *shape: int) -> Call:
    """state, source, slots and starts of one of RUNS; the state is `shape` a slot."""
    tokens, source, slots, n = RUNS[case]
    state = normal(rng, n, *shape)
    state[0] = 0
    return {"state": state, "source": ints(*source), "slots": ints(*slots), "starts": np.cumsum([0, *tokens]).astype(np.int32)}


def in_sixteen(call: Call) -> Iterator[Call]:
    """The same call in float16, then in bfloat16; the state stays."""
    for narrower in sixteen(call):
        yield narrower | {"state": call["state"].copy()}


def touched(source: Array, slots: Array, **_: object) -> Array | None:
    """The slots that a call reads or writes."""
    if not isinstance(source, np.ndarray) or not isinstance(slots, np.ndarray):
        return None
    return np.unique(np.concatenate([source, slots[slots >= 0]]))


def walk_rules(state: Array, source: Array, slots: Array, starts: Array, **_: object) -> str | None:
    """What must hold of the four."""
    n = state.shape[0]
    zero = isinstance(slots, np.ndarray) and bool((slots == 0).any())
    return first(
        unless(str(state.dtype) == "float32", f"state is {state.dtype}; it must be float32, since a recurrence gathers its errors"),
        inside("source", source, 0, n),
        inside("slots", slots, -1, n),
        unless(not zero, "slots holds 0; slot 0 is the state of a fresh start, and stays zero"),
        rising("starts", starts, slots.shape[0]),
    )


def fading(x: Array) -> Array:
    """exp(x) in float64, but 0 where float32 holds none: a state that is infinite becomes NaN there, in any precision."""
    kept = np.exp(x)
    return np.where(narrow(kept) == 0, 0, kept)


def walk(state: Array, source: Array, slots: Array, starts: Array, step: Callable[[int, Array], Array]) -> None:
    """Every request's tokens in order: step(t, the state before in float64) gives the state after, which is rounded to float32."""
    for r, slot in enumerate(source):
        now = wide(state[slot])
        for t in range(starts[r], starts[r + 1]):
            now = wide(narrow(step(t, now)))
            if slots[t] >= 0:
                state[slots[t]] = now


def walk_of(*shape: int) -> Call:
    """Two tokens of one request, three slots."""
    return {**runs(np.random.default_rng(0), 1, *shape), "source": ints(0), "slots": ints(-1, 1), "starts": ints(0, 2)}


def wrong_walks() -> tuple[tuple[Call, str], ...]:
    """What is wrong with those four, for a call of 2 tokens, 1 request and 3 slots."""
    return (
        ({"source": ints(3)}, "source holds 3; it must be in [0, 3)"),
        ({"slots": ints(1, 3)}, "slots holds 3; it must be in [-1, 3)"),
        ({"slots": ints(0, 1)}, "slots holds 0; slot 0 is the state of a fresh start"),
        ({"starts": ints(0, 3)}, "starts holds 3"),
        ({"starts": ints(2, 1)}, "starts is [2, 1]; it must never fall"),
        ({"starts": ints(0, 1, 2)}, "axis R+1 of starts"),
        ({"slots": ints(1)}, "axis T of slots"),
    )
