"""What requests that come at once get of the speed that prompts and batches have by themselves."""

from __future__ import annotations

import time
from collections.abc import Iterator

from vtcore.bench.measured import Effort, Measured, measured, unmeasured
from vtcore.bench.speed import Load, Pace, Prompts, decode, prefill
from vtcore.bench.trace import native_time, teams_of
from vtcore.engine import Engine
from vtcore.sampling_params import SamplingParams

REQUESTS, IN, OUT = 16, 128, 128
RAW = 512  # tokens of the prompt whose speed is the raw one of prompts: as many as a step takes


def concurrent(load: Load, effort: Effort) -> Iterator[Measured]:
    """REQUESTS requests of IN tokens, each with an answer of OUT, submitted at once; in turns with the raw speeds, which are those of the
    sections: a prompt alone, and steps of a batch that all decode."""
    with load(max_model_len=RAW + OUT, max_num_seqs=REQUESTS, enable_prefix_caching=False) as llm:
        engine = llm.engine
        rounds = [_round(engine, Prompts(engine, seed), effort.steps) for seed in range(effort.repetitions + 1)][1:]
    tokens = f"{REQUESTS} requests, {IN} tokens in and {OUT} out"
    yield measured("answers", [r.rate for r, *_ in rounds], "tokens/s", f"{tokens}, prompts included")
    yield measured(f"prefill {RAW}", [p.rate for _, _, p, _ in rounds], "tokens/s", "raw")
    yield measured(f"decode {REQUESTS}", [d.rate for _, _, _, d in rounds], "tokens/s", "raw")
    yield measured("share of the raw speeds", [100 * _raw(p, d) / r.seconds for r, _, p, d in rounds], "%", "what those would take")
    if teams_of(engine):
        shares = [100 * native / r.seconds for r, native, *_ in rounds]
        yield measured("inside native code", shares, "%", "of the requests' time; the rest is Python")
    else:
        yield unmeasured("inside native code", "%", "no provider of this chain runs native code on a thread team")


def _raw(prompts: Pace, batch: Pace) -> float:
    """Seconds that the requests would take at the raw speeds. A prompt's last token gives the first of the answer."""
    return REQUESTS * IN / prompts.rate + REQUESTS * (OUT - 1) / batch.rate


def _round(engine: Engine, prompts: Prompts, steps: int) -> tuple[Pace, float, Pace, Pace]:
    with native_time(engine) as native:
        answers = _answers(engine, [prompts.draw(IN)() for _ in range(REQUESTS)])
    raw = prefill(engine, prompts.draw(RAW)), decode(engine, [prompts.draw(IN) for _ in range(REQUESTS)], steps)
    return answers, native.seconds, *raw


def _answers(engine: Engine, prompts: list[list[int]]) -> Pace:
    params, begin = SamplingParams(temperature=0, max_tokens=OUT, ignore_eos=True), time.perf_counter()
    submissions = [engine.submit(p, params) for p in prompts]
    while not all(s.finished for s in submissions):
        engine.step()
        for s in submissions:
            s.raise_fault()
    return Pace(sum(len(r.output_token_ids) for s in submissions for r in s.requests), time.perf_counter() - begin)
