"""Providers for tests: one instance for each instruction set that this machine runs, and number of threads."""

from functools import cache

import numpy as np

from vtcore.dispatch import Dispatcher
from vtcore.ops import inputs
from vtcore.providers.portable.isa import Avx512, Isa, available, choose, host
from vtcore.providers.portable.kernels import register_all
from vtcore.providers.portable.provider import Portable
from vtcore.quant.blocks import FORMATS, Blocks
from vtcore.tensor import Tensor, of

NAMES = available(host())


class Plain512(Avx512):
    """AVX-512 as on a CPU without VNNI."""

    name = "avx512-plain"

    @property
    def extras(self) -> tuple[str, ...]:
        return ()


def isa_of(name: str) -> Isa:
    return Plain512(host()) if name == Plain512.name else choose(name)


WITHOUT_EXTRAS = [Plain512.name] if "avx512" in NAMES else []
ALL = [*NAMES, *WITHOUT_EXTRAS]


@cache
def portable(name: str = NAMES[0], threads: int = 2) -> Portable:
    provider = Portable(isa_of(name), threads)
    register_all(provider)
    return provider


def run(provider: Portable, op, **call):
    """An op on a provider, strictly: the result as a NumPy array."""
    call = {n: of(v) if isinstance(v, (np.ndarray, Blocks)) else v for n, v in call.items()}
    with Dispatcher([provider], strict=True):
        result = op(**call)
    return result.numpy() if isinstance(result, Tensor) else result


def blocks(name: str, rows: int, columns: int, seed: int = 0) -> Blocks:
    """Random blocks of a format, of ordinary size."""
    return inputs.blocks(np.random.default_rng(seed), rows, columns, FORMATS[name])
