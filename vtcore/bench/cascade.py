"""What cascade attention gains where sequences share a long prefix."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial

from vtcore.bench.measured import Effort, Measured, measured
from vtcore.bench.speed import Load, Prompts, decoding, prefill
from vtcore.engine import Engine
from vtcore.errors import VtcoreError
from vtcore.request import Submission

SHARED, OWN, BATCH = 2048, 8, 16  # tokens of the prefix, tokens of each prompt behind it, sequences


def cascade(load: Load, effort: Effort) -> Iterator[Measured]:
    """Decode steps of BATCH sequences whose prompts share SHARED tokens, with cascade attention and without. Raises VtcoreError where the
    two don't choose the same tokens."""
    steps = effort.steps * effort.repetitions
    length = SHARED + OWN + steps + 4 * BATCH
    options = {"max_model_len": length, "max_num_seqs": BATCH}
    with (
        load(**options) as together,
        load(**options, disable_cascade_attn=True) as apart,
        _decoding(together.engine, steps) as ours,
        _decoding(apart.engine, steps) as theirs,
    ):
        pairs = [_pair(together.engine, apart.engine, first=i % 2 == 0) for i in range(steps)]
        if _tokens(ours, steps) != _tokens(theirs, steps):
            raise VtcoreError("cascade attention chose other tokens than the same engine without it")
    yield measured(f"decode {BATCH} with cascade", [BATCH / a for a, _ in pairs], "tokens/s", f"{SHARED} tokens are shared")
    yield measured(f"decode {BATCH} without", [BATCH / b for _, b in pairs], "tokens/s", "disable_cascade_attn; the same tokens")
    yield measured("cascade's gain", [b / a for a, b in pairs], "x", "of pairs of steps, one of each after the other")


def _decoding(engine: Engine, steps: int) -> AbstractContextManager[list[Submission]]:
    prompts = Prompts(engine)
    head = prompts.draw(SHARED)()
    prefill(engine, partial(list, head))  # now the cache has it
    return decoding(engine, [partial(list, head + prompts.draw(OWN)()) for _ in range(BATCH)], steps)


def _tokens(submissions: list[Submission], count: int) -> list[list[int]]:
    return [s.requests[0].output_token_ids[:count] for s in submissions]


def _pair(cascade: Engine, apart: Engine, *, first: bool) -> tuple[float, float]:
    """Seconds of a step of each."""
    if first:
        return _seconds(cascade), _seconds(apart)
    late = _seconds(apart)
    return _seconds(cascade), late


def _seconds(engine: Engine) -> float:
    start = time.perf_counter()
    engine.step()
    return time.perf_counter() - start
