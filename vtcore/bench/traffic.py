"""How fast this machine reads memory: the bound of a decode that reads every weight once for each token."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from vtcore.available import available_memory
from vtcore.bench.machine import largest_cache
from vtcore.engine import Engine
from vtcore.models.decoder import Decoder
from vtcore.watched import dispatcher_of

LEAST = 256 << 20  # bytes of the array


class ReadBandwidth:
    """Reads an array that no cache holds. `method` says by which means."""

    def __init__(self, engine: Engine, passes: int) -> None:
        self.nbytes, self.passes = array_bytes(), passes
        self.portable = next((p for p in dispatcher_of(engine).providers if p.name == "portable"), None)
        by = "NumPy's sum of int64 in each of {} threads" if self.portable is None else "a compiled kernel on {} threads"
        self.method = f"{by.format(self.threads)}, the best of {passes} passes over {self.nbytes >> 20} MiB"

    @property
    def threads(self) -> int:
        from vtcore.providers.portable.cpus import usable_cpus

        return usable_cpus() if self.portable is None else int(self.portable.facts["threads"])

    def measure(self) -> float:
        """Bytes a second: the best pass, since only disturbance makes one slower."""
        if self.portable is None:
            return max(numpy_rates(self.nbytes, self.passes, self.threads))
        from vtcore.providers.portable.provider import Portable
        from vtcore.providers.portable.read_bandwidth import measure

        assert isinstance(self.portable, Portable)
        return max(measure(self.portable, self.nbytes, self.passes))


def weight_bytes(engine: Engine) -> int:
    """Bytes of weights, as they are stored, that a step of one sequence reads: all that an op multiplies by, and a row of each table,
    of experts those that a token goes to."""
    model = engine.runner.model
    assert isinstance(model, Decoder), "an LLM runs a decoder"
    rest = model.config.rest
    routed = (rest.get("num_experts_per_tok") or 1) / (rest.get("num_experts") or 1)
    shares = {"experts": routed, "experts_q8": routed}
    return sum(w.nbytes // w.shape[0] if op.name == "embedding" else int(w.nbytes * shares.get(op.name, 1)) for op, w in model.uses())


def array_bytes() -> int:
    """Four times the largest cache and at least LEAST, but no more than an eighth of what is free."""
    free = available_memory()
    wanted = max(LEAST, 4 * (largest_cache() or 0))
    return wanted if free is None else min(wanted, free // 8)


def numpy_rates(nbytes: int, passes: int, threads: int) -> list[float]:
    """Bytes a second of each pass; NumPy's reductions leave the interpreter lock."""
    parts, rates = np.array_split(np.ones(nbytes // 8, np.int64), threads), list[float]()
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(passes + 1):
            start = time.perf_counter()
            list(pool.map(np.sum, parts))
            rates.append(nbytes / (time.perf_counter() - start))
    return rates[1:]
