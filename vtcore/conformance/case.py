"""A case: one call of an op, with a name."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal
from zlib import crc32

import numpy as np

from vtcore.op import Call, Op
from vtcore.quant.blocks import Blocks

Array = np.ndarray[Any, Any]


Source = Literal["sample", "fresh", "drawn", "saved"]
MARKS = {"sample": "", "fresh": "fresh", "drawn": "drawn", "saved": "saved"}


@dataclass(frozen=True, eq=False, repr=False)
class Case:
    """One call, with every argument by name. `seed` and `number` name it: the number-th that its source draws from the seed."""

    op: Op
    call: Call
    seed: int
    number: int
    source: Source = "sample"
    text: str = ""  # of a case whose arrays were let go: what it showed
    path: str = ""  # of the file that it was read from

    @property
    def label(self) -> str:
        """What it is called in reports and in lists of known gaps: rms_norm#3, rms_norm#drawn7."""
        return f"{self.op.name}#{MARKS[self.source]}{self.number}"

    def slim(self) -> Case:
        """The same without its arrays, for a list of thousands."""
        return replace(self, call={}, text=repr(self))

    def __repr__(self) -> str:
        if self.text:
            return self.text
        defaults = self.op.parameters
        given = {n: v for n, v in self.call.items() if defaults[n] is inspect.Parameter.empty or not _is(v, defaults[n])}
        return f"{self.op.name}({', '.join(f'{n}={_shown(v)}' for n, v in given.items())})"


def cases(op: Op, seed: int = 0) -> Iterator[Case]:
    """Every sample of an op, always the same for a seed."""
    rng = np.random.default_rng([seed, crc32(op.name.encode())])
    for number, call in enumerate(op.samples(rng)):
        yield Case(op, op.bind(**call), seed, number)


def _is(value: Any, default: Any) -> bool:
    return value is default or (isinstance(value, (bool, int, float, str)) and type(value) is type(default) and value == default)


def _shown(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_shown, value))}]"
    if not isinstance(value, (np.ndarray, Blocks)):
        return repr(value)
    strides = ""
    if isinstance(value, np.ndarray) and value.size and not value.flags.c_contiguous:
        strides = f" by {' '.join(str(s // value.itemsize) for s in value.strides)}"
    return f"{value.dtype}[{' '.join(map(str, value.shape))}{strides}]"
