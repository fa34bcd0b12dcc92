"""A B A B: each round asks this project and then each peer for the same case, and the ratio is taken within the round."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import median
from typing import Any

from peers.channel import NotInstalledError, PeerError, Start, Worker
from peers.groups import DECODE_1, LABELS, Case, Group
from peers.quiet import Watch

PAUSE = 0.05  # seconds between two engines: worker threads go on polling for a while after their last work
TEXT = "The history of the steam engine begins with"
GREEDY_STEPS = 64


@dataclass(frozen=True)
class Plan:
    """How much is run, and by which Pythons."""

    threads: int = 2
    rounds: int = 7
    steps: int = 32
    pythons: Mapping[str, str] = field(default_factory=dict)  # by engine

    def start(self, group: Group, engine: str, folder: Callable[[str], str]) -> Start:
        """A process of a group."""
        return Start(engine, self.pythons[engine], folder(group.files[engine]), self.threads, group.numerics)


@dataclass(frozen=True)
class Row:
    """One line of the table. `ours` and `theirs` are by round. A figure that was disturbed neither meets nor misses what is wanted."""

    group: str
    case: str
    peer: str
    unit: str
    ours: Sequence[float]
    theirs: Sequence[float]
    wanted: str = ""
    met: bool | None = None
    note: str = ""
    disturbed: str = ""

    @property
    def ratios(self) -> list[float]:
        """Ours to theirs, round by round."""
        return [a / b for a, b in zip(self.ours, self.theirs, strict=True)]

    @property
    def ratio(self) -> float:
        """Their median."""
        return median(self.ratios)

    def against(self, wanted: float) -> Row:
        """With the ratio that is to be reached; 0: none."""
        if not wanted:
            return self
        return replace(self, wanted=f"{wanted:g} x", met=None if self.disturbed else self.ratio >= wanted)

    def json(self) -> dict[str, Any]:
        """As plain data."""
        return {**asdict(self), "ratios": self.ratios, "ratio": self.ratio}


@dataclass(frozen=True)
class Named:
    """What could not be measured, or was found besides speed."""

    group: str
    text: str


Found = Row | Named


class Comparison:
    """The engines of one group, all alive."""

    def __init__(self, group: Group, plan: Plan, workers: Mapping[str, Worker]) -> None:
        self.group, self.plan, self.workers = group, plan, workers

    def speeds(self) -> Iterator[Found]:
        """Every case against every peer."""
        for case, wanted in self.group.wanted.items():
            yield from self._case(case, wanted)

    def _case(self, case: Case, wanted: float) -> Iterator[Found]:
        chosen = {engine: case.request(self._fastest(worker, case), self.plan.steps) for engine, worker in self.workers.items()}
        watch = Watch(self.workers)
        rounds = [{e: self._once(watch, e, request) for e, request in chosen.items()} for _ in range(self.plan.rounds)]
        ours = [r["vtcore"] for r in rounds]
        for peer in [e for e in self.workers if e != "vtcore"]:
            row = Row(self.group.title, str(case), LABELS[peer], "tokens/s", ours, [r[peer] for r in rounds])
            yield replace(row, note=chosen[peer]["variant"], disturbed=watch.disturbed()).against(wanted)

    def bandwidth(self) -> Iterator[Found]:
        """Weights that decode 1 reads a second against what memory gives, in turns."""
        ours, memory, watch, said = list[float](), list[float](), Watch(self.workers), ""
        for _ in range(self.plan.rounds):
            with watch.measuring("vtcore"):
                answer = self.workers["vtcore"].ask("bandwidth")
            memory.append(answer["rate"] / 1e9)
            ours.append(self._once(watch, "vtcore", DECODE_1.request("", self.plan.steps)) * answer["weight_bytes"] / 1e9)
            said = answer["method"]
        row = Row(self.group.title, "weights read by decode 1", LABELS["memory"], "GB/s", ours, memory, note=said)
        yield replace(row, disturbed=watch.disturbed()).against(0.8)

    def greedy(self) -> Iterator[Found]:
        """Whether greedy tokens agree, and if not, how near the tie was."""
        if "llama" in self.workers:
            ours = self.workers["vtcore"].ask("greedy", text=TEXT, steps=GREEDY_STEPS)
            theirs = self.workers["llama"].ask("greedy", prompt=ours["prompt"], steps=GREEDY_STEPS)
            yield Named(self.group.title, agreement(ours, theirs))

    def _fastest(self, worker: Worker, case: Case) -> str:
        """The variant to compare with. Every one is also run once before anything counts."""
        requests = {variant: case.request(variant, self.plan.steps) for variant in worker.variants}
        for request in requests.values():
            worker.ask(**request)
        if len(requests) == 1:
            return worker.variants[0]
        return max(requests, key=lambda v: max(rate(worker.ask(**requests[v])) for _ in range(2)))

    def _once(self, watch: Watch, engine: str, request: Mapping[str, Any]) -> float:
        """Tokens a second of one engine, with the others idle."""
        with watch.measuring(engine):
            answer = self.workers[engine].ask(**request)
        time.sleep(PAUSE)
        return rate(answer)


def side_by_side(group: Group, plan: Plan, folder: Callable[[str], str]) -> Iterator[Found]:
    """Everything of a group that one set of living engines gives."""
    workers = dict[str, Worker]()
    try:
        for engine in group.files:
            try:
                workers[engine] = Worker(plan.start(group, engine, folder))
            except NotInstalledError as wrong:
                yield Named(group.title, f"{LABELS[engine]} is not installed: {wrong}")
            except PeerError as wrong:
                yield Named(group.title, f"{LABELS[engine]} doesn't run this model: {wrong}")
        if "vtcore" in workers:
            yield from _all(Comparison(group, plan, workers))
    finally:
        for worker in workers.values():
            worker.close()


def _all(comparison: Comparison) -> Iterator[Found]:
    group = comparison.group
    for worker in comparison.workers.values():
        yield Named(group.title, worker.about)
    parts = [comparison.speeds] if len(comparison.workers) > 1 else []
    parts += [comparison.bandwidth] if group.bandwidth else []
    parts += [comparison.greedy] if group.greedy else []
    for part in parts:
        try:
            yield from part()
        except PeerError as wrong:
            yield Named(group.title, f"{part.__name__} could not be measured to its end: {wrong}")


def rate(answer: Mapping[str, Any]) -> float:
    """Tokens a second."""
    return float(answer["tokens"] / answer["seconds"])


def agreement(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """In words: for how long two greedy runs are the same, and how clear the choice was where they part."""
    n = len(ours["tokens"])
    at = next((i for i, (a, b) in enumerate(zip(ours["tokens"], theirs["tokens"], strict=True)) if a != b), n)
    if at == n:
        return f"greedy tokens: all {n} are llama.cpp's; the narrowest lead in logits was {min(ours['margins']):.3f}"
    leads = f"{ours['margins'][at]:.3f} here and {theirs['margins'][at]:.3f} in llama.cpp"
    return f"greedy tokens: the first {at} are llama.cpp's; where they part, the chosen one led by {leads}"
