"""Captured steps by the shapes of their inputs. A shape that is met a second time is recorded, and replayed from then on."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vtcore.capture import Capture
from vtcore.dispatch import Dispatcher
from vtcore.tensor import Inputs, Tensor

Array = np.ndarray[Any, Any]
Forward = Callable[[Mapping[str, Tensor]], Any]  # a step's integer arrays by name -> a Tensor, or several
Shapes = tuple[tuple[str, tuple[int, ...]], ...]
MOST_TOKENS = 256  # of a step that is recorded: of a longer one the arithmetic takes so long that the rest doesn't count
MOST_PLANS = 64
MOST_BYTES = 256 << 20  # that all plans keep for their results


@dataclass(frozen=True)
class Plan:
    """A recorded step, its inputs, and where its results lie."""

    capture: Capture
    inputs: Inputs
    out: Any
    nbytes: int  # of temporaries and results that it keeps


class Plans:
    """The most recently used plans, as many as `most_bytes` hold.

    With a dispatcher of None, or one that has no provider which records, every step runs op by op."""

    def __init__(self, dispatcher: Dispatcher | None = None, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self._dispatcher = dispatcher if dispatcher is not None and any(p.records for p in dispatcher.providers) else None
        self._plans: OrderedDict[Shapes, Plan | None] = OrderedDict()  # None: met once
        self._inputs: Inputs | None = None

    def run(self, arrays: Mapping[str, Array], forward: Forward) -> Any:
        """The results of a step. They last until the next one."""
        shapes: Shapes = tuple((name, a.shape) for name, a in arrays.items())
        if self._dispatcher is None or arrays["tokens"].size > MOST_TOKENS:
            return forward(self._eager(shapes, arrays))
        plan = self._plans.get(shapes)
        if plan is not None:
            self._plans.move_to_end(shapes)
            plan.inputs.update(arrays)
            plan.capture.replay()
            return plan.out
        if shapes not in self._plans:
            self._note(shapes, None)
            return forward(self._eager(shapes, arrays))
        inputs = Inputs(arrays)
        with Capture(self._dispatcher, inputs) as capture:
            out = forward(inputs.tensors)
        kept = sum(t.nbytes for t in (out if isinstance(out, tuple) else (out,)) if t is not None)
        self._note(shapes, Plan(capture, inputs, out, capture.nbytes + kept))
        return out

    def _note(self, shapes: Shapes, plan: Plan | None) -> None:
        self._plans[shapes] = plan
        self._plans.move_to_end(shapes)
        while len(self._plans) > MOST_PLANS or sum(p.nbytes for p in self._plans.values() if p) > self.most_bytes:
            self._plans.popitem(last=False)

    def _eager(self, shapes: Shapes, arrays: Mapping[str, Array]) -> Mapping[str, Tensor]:
        """All integer arrays of a step as views of one storage; steps of equal shapes use the same one again."""
        if self._inputs is None or tuple((n, t.shape) for n, t in self._inputs.tensors.items()) != shapes:
            self._inputs = Inputs(arrays)
        else:
            self._inputs.update(arrays)
        return self._inputs.tensors
