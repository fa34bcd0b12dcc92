"""The smallest engine that a model can run in: several requests in one batch, whole or in chunks, greedy, every row of logits kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from vtcore.kvcache.cache import Cache, Group, Key, Paged, Spec
from vtcore.models.batch import Batch, Output
from vtcore.tensor import Inputs, Tensor

Array = np.ndarray[Any, Any]
PAGE, PAGES = 16, 96
Numbers = dict[str, Array]  # a batch's integers: by the names of its fields, and as `group:table`, `group:slots`


class Model(Protocol):
    """What runs here: a Decoder."""

    def __call__(self, batch: Batch, cache: Cache) -> Output: ...
    def specs(self) -> dict[Key, Spec]: ...


@dataclass(eq=False)
class Request:
    """A prompt on its way: `tokens` grow by `wanted`, `logits` get a row for each position computed."""

    tokens: list[int]
    wanted: int
    computed: int = 0
    tables: dict[str, list[int]] = field(default_factory=dict)
    logits: list[Array] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tokens = list(self.tokens)
        self.prompt = len(self.tokens)

    @property
    def answer(self) -> list[int]:
        """What was generated so far."""
        return self.tokens[self.prompt :]

    @property
    def done(self) -> bool:
        return len(self.answer) >= self.wanted

    @property
    def rows(self) -> Array:
        """float32 [T, V]."""
        return np.stack(self.logits)


Plan = list[tuple[Request, int]]  # whose turn it is, and for how many tokens


class Runner:
    """Plan, run, commit. `engine` is a Dispatcher, or what stands for one; `budget` is the most tokens of a step."""

    def __init__(self, model: Model, engine: AbstractContextManager[Any], budget: int = 10**9, pages: int = PAGES) -> None:
        self.model, self.engine, self.budget = model, engine, budget
        self.cache = Cache(model.specs(), pages, PAGE)
        self.free = {g: list(range(pages - 1, 0, -1)) for g in self.cache.groups}  # page 0 is the page of zeros
        self.shape: Callable[[Numbers], Numbers] = lambda numbers: numbers  # what a test does to a batch's integers

    def run(self, requests: Sequence[Request]) -> None:
        """Until every request has what it wanted."""
        while waiting := [r for r in requests if not r.done]:
            plan, left = [], self.budget
            for r in waiting:
                if count := min(len(r.tokens) - r.computed, left):
                    plan.append((r, count))
                    left -= count
            self.commit(plan, self.forward(self.batch(self.shape(self.numbers(plan)))))

    def forward(self, batch: Batch) -> Array:
        """float32 [rows, V]."""
        with self.engine:
            logits = self.model(batch, self.cache).logits
        return np.array(logits.numpy())

    def commit(self, plan: Plan, logits: Array) -> None:
        """Keep each request's rows; the last one of a request that has caught up gives its next token, the lowest of the best."""
        row = 0
        for r, count in plan:
            r.logits += list(logits[row : row + count])
            row, r.computed = row + count, r.computed + count
            if r.computed == len(r.tokens):
                r.tokens.append(int(r.logits[-1].argmax()))

    def numbers(self, plan: Plan) -> Numbers:
        """The integers of a step; every token wants its logits."""
        counts = [count for _, count in plan]
        index = np.concatenate([np.arange(r.computed, r.computed + n) for r, n in plan])
        starts = np.concatenate([[0], np.cumsum(counts)])
        out = {
            "tokens": np.concatenate([r.tokens[r.computed : r.computed + n] for r, n in plan]),
            "positions": index,
            "starts": starts,
            "lengths": np.array([r.computed + n for r, n in plan]),
            "prompts": np.array([r.prompt for r, _ in plan]),
            "until": index,
            "rows": np.arange(len(index)),
        }
        for name, spec in self.cache.groups.items():
            out[f"{name}:table"], out[f"{name}:slots"] = self.places(name, spec, plan)
        return out

    def batch(self, numbers: Numbers) -> Batch:
        """The same integers as what a model takes."""
        return batch_of(Inputs(numbers).tensors)

    def places(self, name: str, spec: Spec, plan: Plan) -> tuple[Array, Array]:
        """A group's table [R, n] and slots [T]."""
        give = self.pages if isinstance(spec, Paged) else self.state
        tables, slots = zip(*(give(name, spec, r, count) for r, count in plan), strict=True)
        wide = max(map(len, tables))
        return np.array([[*t, *[0] * (wide - len(t))] for t in tables]).reshape(len(plan), wide), np.concatenate(slots)

    def pages(self, name: str, spec: Any, r: Request, count: int) -> tuple[list[int], Array]:
        """A request's pages, with new ones for `count` more tokens; those that fell out of the window go back."""
        table, free = r.tables.setdefault(name, []), self.free[name]
        index = np.arange(r.computed, r.computed + count)
        entry = index // spec.every
        while len(table) * PAGE <= entry[-1]:
            table.append(free.pop())
        for i in range(max(0, r.computed - spec.window + 1) // spec.every // PAGE if spec.window else 0):
            if table[i]:
                free.insert(0, table[i])
                table[i] = 0
        slots = np.array(table)[entry // PAGE] * PAGE + entry % PAGE
        return list(table), np.where((index + 1) % spec.every == 0, slots, -1)

    def state(self, name: str, spec: Any, r: Request, count: int) -> tuple[list[int], Array]:
        """A request's slot: read from its second step on, written after its last token."""
        table = r.tables.setdefault(name, [])
        source = list(table) or [0]
        if not table:
            table.append(self.free[name].pop())
        return source, np.array([-1] * (count - 1) + table)


def batch_of(tensors: dict[str, Tensor]) -> Batch:
    """A batch from its integers by name."""
    names = [n.removesuffix(":table") for n in tensors if n.endswith(":table")]
    groups = {g: Group(tensors[f"{g}:table"], tensors[f"{g}:slots"]) for g in names}
    t = tensors
    return Batch(t["tokens"], t["positions"], t["starts"], t["lengths"], t["until"], t["rows"], groups, t["prompts"])
