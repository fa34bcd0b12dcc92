"""What one rendering of a chat template may cost. Templates come with models, from strangers: a few lines can ask for years or terabytes.

Three sums are kept while a template runs: steps (an iteration, a call, a filter: anything that Python does), characters made (every string
and list that an operation makes), and CPU time, as a last resort against single slow steps. No one value may be longer than `longest`.
The limits grow with what is rendered, so that long conversations fit. Going over raises TemplateError."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from vtcore.errors import ArgumentError, TemplateError

CURRENT: ContextVar[Budget] = ContextVar("budget")
MOST_BITS = 8192  # of an integer
CHECKED = 7  # the clock is read every 8 steps
OVERHEAD = 16  # what an empty value counts
DEEPEST = 200  # lists within lists: Python's C code goes through them by recursion, hashing even without a check
MOST_WORK = 1 << 26  # characters times characters, for searches that compare all with all


@dataclass(frozen=True)
class Limits:
    """The limits for one rendering: steps, characters in all, characters of one value, seconds of CPU time."""

    steps: int = 500_000
    characters: int = 16 << 20
    longest: int = 1 << 20
    seconds: float = 1.0

    def grown(self, nodes: int, characters: int) -> Limits:
        """For an input of so many values and characters."""
        return Limits(
            self.steps + 1000 * nodes,
            self.characters + 64 * (characters + OVERHEAD * nodes),
            self.longest + 8 * (characters + OVERHEAD * nodes),
            self.seconds + 1e-4 * nodes + 1e-6 * characters,
        )


class Budget:
    """The sums of one rendering."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.thread_time) -> None:
        self.limits, self._clock = limits, clock
        self._until, self._steps, self._characters = clock() + limits.seconds, limits.steps, limits.characters
        # Weight and depth by identity. The value is kept, so that its identity stays its own.
        self._known: dict[int, tuple[Any, int, int]] = {}

    def step(self, count: int = 1) -> None:
        """So much was done."""
        self._steps -= count
        if self._steps < 0:
            raise TemplateError(f"the chat template takes more than {self.limits.steps} steps: it loops too long")
        if (count > CHECKED or not self._steps & CHECKED) and self._clock() > self._until:
            raise TemplateError(f"the chat template takes more than {self.limits.seconds:.1f} seconds")

    def fits(self, length: int) -> None:
        """A value of this length may be made."""
        if length > self.limits.longest:
            raise TemplateError(f"the chat template makes a value of {length} characters; {self.limits.longest} are allowed")

    def work(self, length: int, other: int) -> None:
        """A search may take so many characters for each of so many others."""
        if length * other > MOST_WORK:
            raise TemplateError(f"the chat template searches {length} characters for {other} others; that takes too long")

    def made(self, value: Any) -> Any:
        """Count a value that an operation made, and give it back. What an iterator will give is made here: they may not go through one
        another without end."""
        if isinstance(value, Iterator):
            return iter(self.made(list(self.each(value))))
        weight = self.weigh(value)
        self.fits(weight)
        entries = len(value) if isinstance(value, (list, tuple, dict)) else 0
        self.step(1 + (entries >> 2))
        self._characters -= OVERHEAD + (entries * 8 if entries else weight)
        if self._characters < 0:
            raise TemplateError(f"the chat template makes more than {self.limits.characters} characters in all")
        return value

    def each(self, items: Iterable[Any]) -> Iterator[Any]:
        """The items, every one a step."""
        for item in items:
            self.step()
            yield item

    def weigh(self, value: Any) -> int:
        """About as many characters as a value would print: lists may hold one another so often that no machine could print them."""
        if isinstance(value, str):
            return len(value)
        if isinstance(value, int):
            if value.bit_length() > MOST_BITS:
                raise TemplateError(f"the chat template makes an integer of {value.bit_length()} bits; {MOST_BITS} are allowed")
            return 1 + value.bit_length() // 3
        if not isinstance(value, (list, tuple, dict)):
            return OVERHEAD
        known = self._known.get(id(value))
        return known[1] if known is not None else self._weigh_entries(value)

    def _weigh_entries(self, value: Any) -> int:
        entries = [x for pair in value.items() for x in pair] if isinstance(value, dict) else value
        weight = 2 + sum(2 + self.weigh(entry) for entry in entries)
        depth = 1 + max((self._known[id(entry)][2] for entry in entries if isinstance(entry, (list, tuple, dict))), default=0)
        if depth > DEEPEST:
            raise TemplateError(f"the chat template makes lists nested more than {DEEPEST} deep")
        self._known[id(value)] = value, weight, depth
        return weight


def current() -> Budget:
    """The budget of the rendering that runs."""
    return CURRENT.get()


def measure(value: Any, where: str, depth: int = 0) -> tuple[int, int]:
    """How many values and characters of JSON there are. Raises ArgumentError for anything else: a template gets plain data only."""
    if value is None or isinstance(value, (bool, int, float)):
        return 1, OVERHEAD
    if isinstance(value, str):
        return 1, len(value)
    if depth > DEEPEST // 2:
        raise ArgumentError(f"{where} is nested more than {DEEPEST // 2} deep; chat templates take less")
    if isinstance(value, Mapping):
        parts = [measure(key, where, depth) for key in value] + [measure(v, f"{where}.{k}", depth + 1) for k, v in value.items()]
    elif isinstance(value, (list, tuple)):
        parts = [measure(v, f"{where}[{i}]", depth + 1) for i, v in enumerate(value)]
    else:
        raise ArgumentError(f"{where} is a {type(value).__name__}; chat templates take strings, numbers, lists and dictionaries")
    return 1 + sum(nodes for nodes, _ in parts), sum(characters for _, characters in parts)
