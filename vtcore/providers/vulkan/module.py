"""SPIR-V modules as words (Khronos, SPIR-V specification, 2.3 and 2.4): what is changed in what a compiler gives."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vtcore.memory import Array

HEADER = 5  # words
WORDS = np.dtype("<u4")
NAMES = frozenset((3, 4, 5, 6, 7, 8, 317, 330))  # OpSource, OpName and others that are for debuggers
ARITHMETIC = frozenset((12, 127, 129, 131, 133, 136, 140, 141))  # OpFNegate, OpFAdd, OpFSub, OpFMul, OpFDiv, OpFRem, OpFMod
FIRST_TYPE, LAST_TYPE = 19, 39
DECORATE, NO_CONTRACTION = 71, 42


def exact(code: bytes) -> bytes:
    """A module in which each operation on floats is rounded by itself and in its place, as in OpenCL with FP_CONTRACT off; without names.

    The language can say so of variables only, and misses what is stored at once."""
    words = np.frombuffer(code, WORDS)
    kept, decorations, at = [words[:HEADER]], [], 0
    for instruction in instructions(words):
        opcode = int(instruction[0]) & 0xFFFF
        if opcode in ARITHMETIC:
            decorations += [3 << 16 | DECORATE, int(instruction[2]), NO_CONTRACTION]
        if not at and FIRST_TYPE <= opcode <= LAST_TYPE:
            at = len(kept)
        if opcode not in NAMES:
            kept.append(instruction)
    kept.insert(at, np.array(decorations, WORDS))
    return np.concatenate(kept).tobytes()


def instructions(words: Array) -> Iterator[Array]:
    """Each instruction's words; the first holds its length and its number."""
    at = HEADER
    while at < len(words):
        length = int(words[at]) >> 16
        assert length, f"word {at} of a SPIR-V module is no instruction"
        yield words[at : at + length]
        at += length
