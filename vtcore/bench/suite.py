"""The sections of a benchmark: each yields its figures. What can't be measured is a figure too, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

from vtcore.bench.first_token import command, seconds_to_output
from vtcore.bench.measured import Effort, Measured, measured, unmeasured
from vtcore.bench.memory import peak_memory
from vtcore.bench.speed import Pace, Prompt, Prompts, decode, decoding, prefill, stepped
from vtcore.bench.trace import Trace, native_time, teams_of
from vtcore.bench.traffic import ReadBandwidth, weight_bytes
from vtcore.engine import Engine
from vtcore.errors import VtcoreError
from vtcore.llm import LLM

PREFILLS, BATCHES, CONTEXT = (128, 512), (1, 8, 16), 128
LONGEST = 1024  # tokens of a sequence that the engine is built for, so that caches are as large as the cases need
RATE = "tokens/s"


@dataclass(frozen=True)
class OpTime:
    """What the calls of one op took in an eager run, dispatch included."""

    op: str
    calls: int
    seconds: float
    share: float  # of all ops


class Suite:
    """What can be measured of one model. `eager` gives an engine that runs ops one by one."""

    def __init__(
        self, llm: LLM, effort: Effort, model: str, options: Sequence[str], eager: Callable[[], AbstractContextManager[LLM]]
    ) -> None:
        self.engine, self.effort, self.model, self.options, self.eager = llm.engine, effort, model, options, eager
        self.prompts = Prompts(llm.engine)
        self.ops: dict[str, list[OpTime]] = {}

    def prefill(self) -> Iterator[Measured]:
        """Tokens of a prompt a second, up to its first token."""
        for tokens in PREFILLS:
            name = f"prefill {tokens}"
            yield self._too_long(name, tokens + 1) or self._repeated(name, partial(self._prefill, tokens))

    def decode(self) -> Iterator[Measured]:
        """Tokens a second of all sequences together, after prompts of CONTEXT tokens."""
        for batch in BATCHES:
            name = f"decode {batch}"
            yield self._cannot_decode(name, batch) or self._repeated(name, partial(self._decode, batch))

    def first_token(self) -> Iterator[Measured]:
        """Seconds from the start of `vtcore run` to its first output."""
        arguments = command(self.model, self.options)
        try:
            seconds_to_output(arguments)
            runs = [seconds_to_output(arguments) for _ in range(self.effort.starts)]
            yield measured("first token", runs, "s", "from the start of `vtcore run`, its caches warm")
        except VtcoreError as wrong:
            yield unmeasured("first token", "s", str(wrong))

    def memory(self) -> Iterator[Measured]:
        """The most that this process held, after the largest prompt and the largest batch that fit."""
        done = list[str]()
        for tokens in [n for n in PREFILLS if self._fits(n + 1)][-1:]:
            self._prefill(tokens)
            done.append(f"prefill {tokens}")
        for batch in [n for n in BATCHES if self._cannot_decode("", n) is None][-1:]:
            self._decode(batch)
            done.append(f"decode {batch}")
        peak = peak_memory()
        if peak is None:
            yield unmeasured("peak memory", "bytes", "this system doesn't say")
        else:
            yield measured(
                "peak memory", [peak], "bytes", f"of this process, mapped files included, after {' and '.join(done) or 'loading'}"
            )

    def bandwidth(self) -> Iterator[Measured]:
        """Weights read for one sequence's tokens against what this machine's memory gives. Both are measured in turns."""
        reader = ReadBandwidth(self.engine, self.effort.passes)
        rates, pairs, nbytes = list[float](), list[float](), weight_bytes(self.engine)
        if (cannot := self._cannot_decode("weights read", 1, "GB/s")) is None:
            self._decode(1)
        for _ in range(self.effort.repetitions):
            rates.append(reader.measure() / 1e9)
            if cannot is None:
                pairs.append(self._decode(1) * nbytes / 1e9)
        yield measured("read bandwidth", rates, "GB/s", reader.method)
        if cannot is not None:
            yield cannot
            return
        yield measured("weights read", pairs, "GB/s", f"decode 1 times {nbytes} bytes of weights a token")
        yield measured("share of bandwidth", [100 * a / b for a, b in zip(pairs, rates, strict=True)], "%")

    def overhead(self) -> Iterator[Measured]:
        """The share of a step of one sequence that is spent outside of native kernels."""
        if cannot := self._cannot_decode("outside native code", 1, "%"):
            yield cannot
        elif not teams_of(self.engine):
            yield unmeasured("outside native code", "%", "no provider of this chain runs native code on a thread team")
        else:
            steps, shares = self._overheads()
            yield measured("step", steps, "ms", "decode 1")
            yield measured("outside native code", shares, "%", "of that step: Python, and ops that run as their definitions")

    def time_of_ops(self) -> Iterator[Measured]:
        """What each op takes where they run one by one, into `ops`; and how fast that is, without the recorded steps of `decode`."""
        with self.eager() as llm:
            for name, work in self._eager_cases(llm.engine):
                work()
                with Trace(llm.engine) as trace:
                    runs = [work().rate for _ in range(self.effort.repetitions)]
                self.ops[name] = _shares(trace)
                yield measured(f"{name} op by op", runs, RATE, "the run that the shares of ops are taken from")

    def _eager_cases(self, engine: Engine) -> Iterator[tuple[str, Callable[[], Pace]]]:
        for tokens in [n for n in PREFILLS if self._fits(n + 1)][-1:]:
            yield f"prefill {tokens}", partial(self._prefill_on, engine, tokens)
        runs = self.effort.repetitions + 1
        if self._cannot_decode("", 1, runs=runs) is None:
            with decoding(engine, self._draw(1), runs * self.effort.steps):
                yield "decode 1", partial(stepped, engine, self.effort.steps)

    def _overheads(self) -> tuple[list[float], list[float]]:
        steps, shares = list[float](), list[float]()
        self._decode(1)
        for _ in range(self.effort.repetitions):
            with decoding(self.engine, self._draw(1), self.effort.steps), native_time(self.engine) as native:
                pace = stepped(self.engine, self.effort.steps)
            steps.append(1e3 * pace.seconds / self.effort.steps)
            shares.append(100 * (1 - native.seconds / pace.seconds))
        return steps, shares

    def _repeated(self, name: str, run: Callable[[], float]) -> Measured:
        run()
        return measured(name, [run() for _ in range(self.effort.repetitions)], RATE)

    def _prefill(self, tokens: int) -> float:
        return self._prefill_on(self.engine, tokens).rate

    def _prefill_on(self, engine: Engine, tokens: int) -> Pace:
        return prefill(engine, self.prompts.draw(tokens))

    def _decode(self, batch: int) -> float:
        return decode(self.engine, self._draw(batch), self.effort.steps).rate

    def _draw(self, batch: int) -> list[Prompt]:
        return [self.prompts.draw(CONTEXT) for _ in range(batch)]

    def _fits(self, tokens: int) -> bool:
        return tokens <= self.engine.intake.config.max_model_len

    def _too_long(self, name: str, tokens: int, unit: str = RATE) -> Measured | None:
        longest = self.engine.intake.config.max_model_len
        return None if self._fits(tokens) else unmeasured(name, unit, f"it takes {tokens} tokens, and this model's context is {longest}")

    def _cannot_decode(self, name: str, batch: int, unit: str = RATE, runs: int = 1) -> Measured | None:
        return self._too_long(name, CONTEXT + runs * self.effort.steps + 2 * batch + 1, unit)


def _shares(trace: Trace) -> list[OpTime]:
    total = sum(trace.seconds.values())
    return [OpTime(op, trace.calls[op], s, s / total) for op, s in sorted(trace.seconds.items(), key=lambda item: -item[1])]


# name on the command line -> the method
SECTIONS: dict[str, Callable[[Suite], Iterator[Measured]]] = {
    "prefill": Suite.prefill,
    "decode": Suite.decode,
    "first-token": Suite.first_token,
    "memory": Suite.memory,
    "bandwidth": Suite.bandwidth,
    "overhead": Suite.overhead,
    "ops": Suite.time_of_ops,
}
