"""One position under different arithmetic: rounding everywhere, in the weights alone, or at one op alone; and 8-bit activations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np

from vtcore.dispatch import Dispatcher
from vtcore.errors import ArgumentError
from vtcore.llm import LLM
from vtcore.op import Call, Op
from vtcore.oracle.recording import Array
from vtcore.rounding import DTYPES, UNROUNDED, Rounding
from vtcore.tensor import of

Open = Callable[..., LLM]  # with LLM's options
Row = tuple[str, Array | None, str]  # a choice, its logits [V], or None and why it can't be made
PLACES = ("embedding", "concat", "place")  # ops that only move values: rounding them is rounding what they move


class Partial(Rounding):
    """Rounds at some ops alone, each by the whole of its rule."""

    def __init__(self, dispatcher: Dispatcher, dtype: np.dtype[Any], only: frozenset[str]) -> None:
        super().__init__(dispatcher, dtype)
        self.only, self._inside = only, False

    def run(self, op: Op, call: Call) -> Any:
        """By its rule if it is one of them, or within the rule of one of them."""
        if self._inside:
            return super().run(op, call)
        if op.name not in self.only:
            return self.dispatcher.run(op, call)
        self._inside = True
        if op.name == "write_pages":  # it has no result: what it keeps is rounded instead
            call = call | {"values": of(self.array(call["values"].numpy(moved=self.dispatcher.moved)))}
        try:
            return super().run(op, call)
        finally:
            self._inside = False


def logits_after(llm: LLM, ids: list[int], forward: Dispatcher | Rounding | None = None) -> Array:
    """The last row of logits [V], with the ops run by something else than usual."""
    usual = llm.engine.forward
    llm.engine.forward = usual if forward is None else forward
    try:
        return np.asarray(llm.logits(ids)[-1])
    finally:
        llm.engine.forward = usual


def dispatcher_of(llm: LLM) -> Dispatcher:
    """What runs ops without any rounding."""
    forward = llm.engine.forward
    return forward.dispatcher if isinstance(forward, Rounding) else forward


def choices(open_model: Open, ids: list[int]) -> Iterator[Row]:
    """Every choice, whole ones first."""
    with closing(open_model()) as llm:
        yield "float32, exact", logits_after(llm, ids), ""
        yield from _fast(open_model, ids)
        for name in DTYPES:
            yield from _rounded(open_model, ids, name)
        ops = sorted({r.op for r in llm.report().ran} - _choosing())
        for name, dtype in DTYPES.items():
            for op in ops:
                forward = Partial(dispatcher_of(llm), dtype, frozenset({op}))
                yield f"{name} at {op} alone", logits_after(llm, ids, forward), ""


def _choosing() -> set[str]:
    """Ops that choose tokens, or move values that something else has computed."""
    from vtcore.op import REGISTRY

    return {name for name, op in REGISTRY.items() if op.reference.__module__ == UNROUNDED} | set(PLACES) | {"argmax"}


def _fast(open_model: Open, ids: list[int]) -> Iterator[Row]:
    try:
        llm = open_model(numerics="fast")
    except ArgumentError as why:
        yield "8-bit activations (fast)", None, str(why)
        return
    with closing(llm):
        yield "8-bit activations (fast)", logits_after(llm, ids), ""


def _rounded(open_model: Open, ids: list[int], name: str) -> Iterator[Row]:
    with closing(open_model(dtype=name)) as llm:
        yield f"{name} everywhere", logits_after(llm, ids), ""
        yield f"{name} weights alone", logits_after(llm, ids, dispatcher_of(llm)), ""


def opener(model: str, **options: Any) -> Open:
    """How choices open a model: without replays, so that every op is met, and without prefixes that were computed under another choice."""
    return partial(LLM, model, capture=False, enable_prefix_caching=False, **options)
