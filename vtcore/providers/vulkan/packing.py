"""Many SPIR-V modules in one small file: what they have in common is said alike in all, so that it is compressed away.

Types, constants and global variables get ids below COMMON, the same thing the same id in every module; results in functions get ids from
there on, in order, and are told by how far back they are."""

from __future__ import annotations

import lzma
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vtcore.memory import Array
from vtcore.providers.vulkan.module import ARITHMETIC, DECORATE, HEADER, NO_CONTRACTION, WORDS, instructions

COMMON = 4096
BOUND = 3  # the word of a header that says how many ids there are
FUNCTION = 54
DIGEST = 16  # bytes
FILTERS = ({"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 0, "lp": 2, "pb": 2},)  # of words of four bytes
RESULT, LITERAL = "r", "l"
# Operands (SPIR-V specification, 3.49): r a result, i another id, l no id; the last one goes on.
OPERANDS = {
    "": (252, 253, 255, 56),
    "i": (224, 225, 228, 249, 254),
    "ii": (250,),
    "iil": (62, 246),
    "iili": (63,),
    "il": (16, 71, 72, 247),
    "iri": (44, 51, 57, 65, 66, 80, 245, 227, 333, *range(229, 243), *range(109, 125), *range(126, 153), *range(154, 206)),
    "iriil": (79, 82),
    "iril": (61, 81),
    "irili": (12, 350, 358),
    "irl": (43, 50),
    "irli": (52, 54, 59),
    "ir": (1, 41, 42, 46, 48, 49, 55),
    "l": (10, 14, 17),
    "lilli": (15,),  # a name of four letters, "main", takes two words
    "r": (19, 20, 248),
    "ri": (29, 30, 33),
    "rii": (28,),
    "ril": (23, 24),
    "rl": (11, 21, 22),
    "rli": (32,),
}
KINDS = {opcode: kinds for kinds, opcodes in OPERANDS.items() for opcode in opcodes}
Change = Callable[[int, bool], int]  # an id, and whether it is a result: what stands there instead


def pack(modules: Mapping[str, bytes]) -> bytes:
    """Modules by digest as one file, the same for the same modules. ValueError where one has what can't be packed."""
    known: dict[Any, int] = {}
    packed = {digest: _relative(_numbered(code, known)) for digest, code in sorted(modules.items())}
    index = b"".join(bytes.fromhex(digest) + len(words).to_bytes(4, "little") for digest, words in packed.items())
    parts = [len(packed).to_bytes(4, "little"), index, *(words.astype(WORDS).tobytes() for words in packed.values())]
    return lzma.compress(b"".join(parts), filters=list(FILTERS))


def unpack(data: bytes) -> dict[str, Array]:
    """Of each digest the words as they are packed, for `restored`."""
    raw = lzma.decompress(data)
    at, out = 4 + int.from_bytes(raw[:4], "little") * (DIGEST + 4), {}
    for entry in range(4, at, DIGEST + 4):
        length = 4 * int.from_bytes(raw[entry + DIGEST : entry + DIGEST + 4], "little")
        out[raw[entry : entry + DIGEST].hex()] = np.frombuffer(raw, WORDS, length // 4, at)
        at += length
    return out


def restored(words: Array) -> bytes:
    """A module, but for its ids' numbers and what `exact` adds as it was when it was packed."""
    last = COMMON - 1

    def change(told: int, result: bool) -> int:
        nonlocal last
        value = told if told < COMMON else last - _signed(told - COMMON)
        last = value if result and value >= COMMON else last
        return value

    return _changed(words, change).astype(WORDS).tobytes()


def _relative(words: Array) -> Array:
    last = COMMON - 1

    def change(value: int, result: bool) -> int:
        nonlocal last
        told = value if value < COMMON else COMMON + _unsigned(last - value)
        last = value if result and value >= COMMON else last
        return told

    return _changed(words, change)


def _unsigned(value: int) -> int:
    return 2 * value if value >= 0 else -2 * value - 1


def _signed(value: int) -> int:
    return value >> 1 if not value & 1 else -(value + 1 >> 1)


def _numbered(code: bytes, known: dict[Any, int]) -> Array:
    """A module with ids as they are in all, without what `exact` adds. `known`: of the common ones, added to."""
    words = np.frombuffer(code, WORDS)
    every = [i.tolist() for i in instructions(words)]
    added = {(3 << 16 | DECORATE, i[2], NO_CONTRACTION) for i in every if i[0] & 0xFFFF in ARITHMETIC}
    kept = [i for i in every if tuple(i) not in added]
    ids = _ids(kept, known)
    header = words[:HEADER].tolist()
    header[BOUND] = max(*ids.values(), COMMON) + 1
    return _changed(np.array([*header, *(w for i in kept for w in i)], np.uint32), lambda value, result: ids[value])


def _ids(kept: list[list[int]], known: dict[Any, int]) -> dict[int, int]:
    """The new number of each id: in functions in order, elsewhere by what it stands for, and the how manieth such it is."""
    ids: dict[int, int] = {}
    seen: Counter[Any] = Counter()
    inside, local = False, COMMON
    for instruction in kept:
        kinds = _kinds(instruction)
        inside = inside or instruction[0] & 0xFFFF == FUNCTION
        if RESULT in kinds and inside:
            ids[instruction[kinds.index(RESULT) + 1]], local = local, local + 1
        elif RESULT in kinds:
            content = instruction[0], *((k, w if k == LITERAL else ids.get(w)) for k, w in zip(kinds, instruction[1:], strict=True))
            ids[instruction[kinds.index(RESULT) + 1]] = known.setdefault((content, seen[content]), len(known) + 1)
            seen[content] += 1
    if len(known) >= COMMON:
        raise ValueError(f"the modules have {len(known)} types, constants and variables; {COMMON - 1} can be packed")
    return ids


def _changed(words: Array, change: Change) -> Array:
    out = words[:HEADER].tolist()
    for instruction in instructions(words):
        head, *operands = instruction.tolist()
        out.append(head)
        out += [w if k == LITERAL else change(w, k == RESULT) for k, w in zip(_kinds(instruction), operands, strict=True)]
    return np.array(out, np.uint32)


def _kinds(instruction: Any) -> str:
    opcode, count = int(instruction[0]) & 0xFFFF, len(instruction) - 1
    kinds = KINDS.get(opcode)
    if kinds is None:
        raise ValueError(f"SPIR-V has an instruction {opcode}, whose operands vtcore.providers.vulkan.packing doesn't know")
    return kinds[:count] + kinds[-1:] * (count - len(kinds))
