"""Weights from nothing: tensors drawn by name, the same numbers on every machine and with every NumPy, so that a golden holds no weights.

A draw uses only what is exact: SHA-256, PCG64's raw words (a stream that NumPy keeps), sums of bytes, products of float64."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod, sqrt
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]
BYTES_MEAN, BYTES_STD = 8 * 127.5, sqrt(8 * (256**2 - 1) / 12)  # of the sum of a word's eight bytes, which is nearly normal
GRID = 2.0**20  # values are multiples of 1/GRID: then what bfloat16 holds, float16 holds as well
_RANGE = re.compile(r"\{(\d+)-(\d+)\}")


@dataclass(frozen=True)
class Drawn:
    """How one tensor comes about: `offset + std * z`, or (`distinct` > 0) int64 rows of distinct numbers below it.

    In a file one line may stand for many: `layers.{0-2}.mlp` are three names."""

    name: str
    shape: tuple[int, ...]
    std: float = 0.0
    offset: float = 0.0
    distinct: int = 0

    def array(self, seed: int) -> Array:
        """float32 values that bfloat16 and float16 hold exactly; or int64."""
        if self.distinct:
            words = raw_words(seed, self.name, prod(self.shape[:-1]) * self.distinct).reshape(-1, self.distinct)
            return np.argsort(words, axis=1, kind="stable")[:, : self.shape[-1]].reshape(self.shape)
        return storable(self.offset + self.std * standard(seed, self.name, prod(self.shape))).reshape(self.shape)


def raw_words(seed: int, name: str, count: int) -> Array:
    """`count` uint64 that follow from the seed and the name."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    words: Array = np.random.PCG64(int.from_bytes(digest[:16], "little")).random_raw(count)
    return words


def standard(seed: int, name: str, count: int) -> Array:
    """float64 of mean 0 and deviation 1, within 4.9."""
    summed = raw_words(seed, name, count).view(np.uint8).reshape(count, 8).sum(1, dtype=np.int64)
    return np.asarray((summed - BYTES_MEAN) / BYTES_STD)


def storable(x: Array) -> Array:
    """The nearest values that float32, bfloat16 and float16 all hold."""
    return np.asarray((np.round(x * GRID) / GRID).astype(ml_dtypes.bfloat16).astype(np.float32))


def integers(seed: int, name: str, count: int, low: int, high: int) -> list[int]:
    """`count` integers in [low, high)."""
    return [int(word % (high - low)) + low for word in raw_words(seed, name, count)]


def unfold(drawn: Drawn) -> Iterator[Drawn]:
    """Every tensor that one line stands for."""
    ranges = [range(int(a), int(b) + 1) for a, b in _RANGE.findall(drawn.name)]
    for numbers in itertools.product(*ranges):
        name = drawn.name
        for number in numbers:
            name = _RANGE.sub(str(number), name, count=1)
        yield replace(drawn, name=name)


def fold(tensors: Iterable[Drawn]) -> list[Drawn]:
    """As few lines as stand for the same tensors: names that differ by numbers alone, where those are all of a product of ranges."""
    alike: dict[tuple[Any, ...], list[tuple[int, ...]]] = {}
    for t in tensors:
        parts = re.split(r"(?<=\.)(\d+)(?=\.)", t.name)
        alike.setdefault((tuple(parts[::2]), t.shape, t.std, t.offset, t.distinct), []).append(tuple(map(int, parts[1::2])))
    return [Drawn(name, *key[1:]) for key, numbers in alike.items() for name in _folded(key[0], numbers)]


def _folded(texts: Sequence[str], numbers: list[tuple[int, ...]]) -> list[str]:
    """The names made of these texts with these numbers between: one pattern where a pattern is exact, else each."""
    spans = [sorted(set(column)) for column in zip(*numbers, strict=True)]
    whole = all(span == list(range(span[0], span[-1] + 1)) for span in spans) and prod(map(len, spans)) == len(numbers)
    marks = [[f"{{{s[0]}-{s[-1]}}}" if len(s) > 1 else str(s[0]) for s in spans]] if whole else [list(map(str, n)) for n in numbers]
    return ["".join(itertools.chain.from_iterable(itertools.zip_longest(texts, mark, fillvalue=""))) for mark in marks]
