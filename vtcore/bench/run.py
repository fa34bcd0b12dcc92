"""From a model and options to a result: machine, model, figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from vtcore.bench import machine
from vtcore.bench.measured import FULL, QUICK, Measured
from vtcore.bench.scenarios import SCENARIOS
from vtcore.bench.suite import LONGEST, SECTIONS, OpTime, Suite
from vtcore.errors import ArgumentError, nearest
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.llm import LLM
from vtcore.models.load import identify
from vtcore.watched import dispatcher_of


@dataclass(frozen=True)
class Choice:
    """What to measure, and how it is run. Every one has an effect on every section."""

    model: str  # a path, resolved
    numerics: str = "exact"
    providers: str | None = None
    threads: int | None = None
    quick: bool = False
    only: tuple[str, ...] = tuple(SECTIONS)
    block_size: int | None = None
    max_num_batched_tokens: int | None = None
    scenario: str | None = None  # in place of the sections
    dtype: str | None = None
    kv_cache_dtype: str | None = None
    memory_limit: str | None = None

    def __post_init__(self) -> None:
        if self.scenario is not None and self.scenario not in SCENARIOS:
            raise ArgumentError(f"scenario is {self.scenario!r}{nearest(self.scenario, SCENARIOS)}; there is {', '.join(SCENARIOS)}")
        if self.scenario is not None and self.only != tuple(SECTIONS):
            raise ArgumentError("only names sections, and a scenario is measured in place of them; leave one of the two away")
        if not self.only or len(set(self.only)) < len(self.only):
            raise ArgumentError(f"only is {', '.join(self.only) or 'empty'}; name each section once, of {', '.join(SECTIONS)}")
        if unknown := [s for s in self.only if s not in SECTIONS]:
            hint = nearest(unknown[0], SECTIONS)
            raise ArgumentError(f"only holds {', '.join(unknown)}{hint}; a benchmark has the sections {', '.join(SECTIONS)}")

    def keywords(self) -> dict[str, Any]:
        """For LLM: what is not left to its defaults."""
        names = ("numerics", "providers", "threads", "block_size", "max_num_batched_tokens", "dtype", "kv_cache_dtype", "memory_limit")
        return {n: v for n in names if (v := getattr(self, n)) is not None}

    def options(self) -> list[str]:
        """For the command line."""
        return [word for n, v in self.keywords().items() for word in ("--" + n.replace("_", "-"), str(v))]


@dataclass(frozen=True)
class Result:
    """All that was measured."""

    machine: Mapping[str, Any]
    model: Mapping[str, Any]
    settings: Mapping[str, Any]
    figures: tuple[Measured, ...]
    ops: Mapping[str, Sequence[OpTime]]

    def json(self) -> dict[str, Any]:
        """As plain data: figures by name."""
        return {
            "machine": dict(self.machine),
            "model": dict(self.model),
            "settings": dict(self.settings),
            "figures": {f.name: f.json() for f in self.figures},
            "ops": {case: [asdict(o) for o in times] for case, times in self.ops.items()},
        }


def run(choice: Choice, heard: Callable[[Measured], None] = lambda figure: None) -> Result:
    """Measure. Each figure is also handed to `heard` as soon as it is there."""
    length = serving_length(choice.model)
    facts = machine.describe()  # before anything is run: what the machine was busy with is not this
    with loaded(choice, length) as llm:
        suite = Suite(llm, QUICK if choice.quick else FULL, choice.model, choice.options(), lambda: loaded(choice, length, capture=False))
        figures = list[Measured]()
        for figure in _figures(choice, suite):
            heard(figure)
            figures.append(figure)
        providers = {p.name: dict(p.facts) for p in dispatcher_of(llm.engine).providers}
        return Result(facts | {"providers": providers}, about(llm), settings(choice, suite), tuple(figures), suite.ops)


def _figures(choice: Choice, suite: Suite) -> Iterator[Measured]:
    if choice.scenario is not None:
        yield from SCENARIOS[choice.scenario](partial(LLM, choice.model, **choice.keywords()), suite.effort)
        return
    for name in SECTIONS:
        yield from SECTIONS[name](suite) if name in choice.only else ()


@contextmanager
def loaded(choice: Choice, length: int, capture: bool = True) -> Iterator[LLM]:
    """The model, for as long as the block is open. Nothing is taken from the cache: every token that is counted is computed."""
    with LLM(choice.model, max_model_len=length, capture=capture, enable_prefix_caching=False, **choice.keywords()) as llm:
        yield llm


def serving_length(model: str) -> int:
    """LONGEST, or what the checkpoint is made for if that is less."""
    return min(LONGEST, identify(open_checkpoint(model)).config.context)


def about(llm: LLM) -> dict[str, Any]:
    """The model's facts."""
    checkpoint, formats = llm.checkpoint, dict[str, int]()
    for tensor in checkpoint.tensors.values():
        formats[str(tensor.dtype)] = formats.get(str(tensor.dtype), 0) + tensor.nbytes
    return {
        "file": Path(checkpoint.path).name,
        "bytes": checkpoint.nbytes,
        "formats": formats,
        "tokenizer": llm.engine.intake.tokenizer is not None,
    }


def settings(choice: Choice, suite: Suite) -> dict[str, Any]:
    """How it was run."""
    return {**asdict(choice), "model": Path(choice.model).name, "only": list(choice.only), **asdict(suite.effort)}
