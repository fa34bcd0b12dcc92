"""Timed results against the definition, and what kind of wrong they are."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from vtcore.bench.op_inputs import Inputs
from vtcore.conformance.judge import Answer, compared, result_names
from vtcore.op import Op
from vtcore.tensor import Tensor

Array = np.ndarray[Any, Any]
FIRST = 3  # rounds whose values a result is compared with that is not right for its own


@dataclass
class Kept:
    """A timed result, and what gave it: the values of round `round` in set `number`."""

    round: int
    number: int
    at: int  # which timed call it was, from 0
    results: list[Any]
    written: dict[str, Array]  # what the call changed in place, as it was right after


@dataclass(frozen=True)
class Judged:
    """How many results were held against the definition, and what is wrong, in words; empty: nothing."""

    checked: int
    wrong: str = ""


def judge(op: Op, inputs: Inputs, kept: list[Kept], seconds: float) -> Judged:
    """The last result, the first, then others, for as long as there is time."""
    order, begin, checked = [kept[-1], kept[0], *kept[1:-1]] if len(kept) > 1 else kept, time.perf_counter(), 0
    for i, result in enumerate(order):
        if i < 2 or time.perf_counter() - begin < seconds:
            checked += 1
            if wrong := _wrong(op, inputs, result, result.round):
                return Judged(checked, f"timed call {result.at}: {wrong}\n    {_blame(op, inputs, kept, result)}")
    return Judged(checked)


def _blame(op: Op, inputs: Inputs, kept: list[Kept], bad: Kept) -> str:
    """What a wrong result is right for."""
    storages = [t.storage for k in kept if k.at != bad.at for t in k.results if isinstance(t, Tensor)]
    if any(t.storage is s for t in bad.results if isinstance(t, Tensor) for s in storages):
        return "a later call's result lies in the same memory: each result must be fresh"
    if any(_wrong(op, inputs, bad, r) == "" for r in {*range(FIRST), bad.round - 1} if r < bad.round):
        return "it is the result of earlier values in the same memory: the kernel goes by where its inputs lie, not by what they hold"
    if bad is not kept[0] and _wrong(op, inputs, kept[0], kept[0].round) == "":
        return "the first calls were right: the kernel is wrong later on"
    return "the first calls were wrong too: `vtcore check` says more"


def _wrong(op: Op, inputs: Inputs, kept: Kept, round_: int) -> str:
    """In what way a result is not that of the values of a round; empty: in none."""
    answer = Answer(op, inputs.values(round_, kept.number))
    got = [t.numpy() if isinstance(t, Tensor) else t for t in kept.results]
    if [_kind(g) for g in got] != [_kind(w) for w in answer.results]:
        return f"it gave {', '.join(map(_kind, got)) or 'nothing'}; the op gives {', '.join(map(_kind, answer.results)) or 'nothing'}"
    pairs = list(zip(result_names(answer.results), got, answer.results, strict=True))
    return compared(op, [*pairs, *((n, kept.written[n], want) for n, want in answer.written.items())], answer.rtol).reason


def _kind(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__
