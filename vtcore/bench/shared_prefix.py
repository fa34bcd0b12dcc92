"""What the cache of prefixes gains where a prompt begins as another did."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from vtcore.bench.measured import Effort, Measured, measured
from vtcore.bench.speed import Load, Prompts, prefill

SHARED, OWN = 2048, 8  # tokens of the beginning, and of each prompt behind it


def shared_prefix(load: Load, effort: Effort) -> Iterator[Measured]:
    """Seconds to the first token of a prompt, and to that of the next one, which shares its first SHARED tokens."""
    with load(max_model_len=SHARED + OWN + 1) as llm:
        prompts, pairs = Prompts(llm.engine), list[tuple[float, float]]()
        for _ in range(effort.repetitions + 1):
            head = prompts.draw(SHARED)()
            own = [head + prompts.draw(OWN)() for _ in range(2)]
            first, second = (prefill(llm.engine, partial(list, ids)).seconds for ids in own)
            pairs.append((first, second))
        pairs = pairs[1:]  # the first ones compiled kernels
    yield measured("first token", [a for a, _ in pairs], "s", f"of a prompt of {SHARED + OWN} tokens")
    yield measured("first token of the next", [b for _, b in pairs], "s", f"which shares {SHARED} of them")
    yield measured("the cache's gain", [a / b for a, b in pairs], "x", "of pairs of prompts")
