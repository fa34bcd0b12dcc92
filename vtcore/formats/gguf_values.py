"""GGUF's key-value section: walked once to find where every value lies, each value decoded when it is asked for.

A vocabulary of a quarter of a million strings is stepped over in milliseconds. Format: ggml's docs/gguf.md."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, NoReturn, cast

import numpy as np

from vtcore.errors import GGUFError
from vtcore.formats.metadata import short

Array = np.ndarray[Any, Any]
SCALARS = {0: "u1", 1: "i1", 2: "u2", 3: "i2", 4: "u4", 5: "i4", 6: "f4", 7: "?", 10: "u8", 11: "i8", 12: "f8"}
DTYPES = {kind: np.dtype(code).newbyteorder("<") for kind, code in SCALARS.items()}
BOOL, STRING, ARRAY = 7, 8, 9
LONGEST_NAME = 65535  # bytes, of keys and of tensor names
DEEPEST = 8  # arrays within arrays
MOST_ARRAYS = 1 << 16  # within arrays: bounds the time that a hostile file takes
LENGTH = struct.Struct("<Q")


class Cursor:
    """Reads a mapped file from front to back and never past its end. `what` says in errors what is being read."""

    def __init__(self, data: Array, source: str, at: int = 0, what: str = "the header") -> None:
        self.data, self.source, self.at, self.what = data, source, at, what
        self.view = memoryview(cast(Any, data))
        self.arrays = 0  # arrays inside arrays so far

    def fail(self, problem: str) -> NoReturn:
        raise GGUFError(f"{self.source}: {self.what}: {problem}")

    def take(self, nbytes: int) -> int:
        """Where the next `nbytes` begin; they are in the file, and the cursor is behind them."""
        begin = self.at
        if nbytes > len(self.view) - begin:
            self.fail(f"{nbytes} bytes are needed at byte {begin} of {len(self.view)}: the file is cut short or corrupt")
        self.at += nbytes
        return begin

    def u32(self) -> int:
        return int.from_bytes(self.view[self.take(4) : self.at], "little")

    def u64(self) -> int:
        return int.from_bytes(self.view[self.take(8) : self.at], "little")

    def count(self, nbytes: int, most: int | None = None) -> int:
        """A number of things of at least `nbytes` each; no more than the rest of the file can hold, and than `most`."""
        n = self.u64()
        if most is not None and n > most:
            self.fail(f"a count of {n}; at most {most} are allowed")
        if n > (len(self.view) - self.at) // nbytes:
            self.fail(f"a count of {n} can't be: {len(self.view) - self.at} bytes are left at byte {self.at}")
        return n

    def text(self, longest: int | None = None) -> str:
        n = self.u64()
        if longest is not None and n > longest:
            self.fail(f"a name of {n} bytes; at most {longest} are allowed")
        try:
            return str(self.view[self.take(n) : self.at], "utf-8")
        except UnicodeDecodeError as e:
            self.fail(f"the string at byte {self.at - n} is not UTF-8: {e.reason} at its byte {e.start}")

    def skip_strings(self, n: int) -> None:
        view, at, unpack = self.view, self.at, LENGTH.unpack_from
        try:
            for _ in range(n):
                at += 8 + unpack(view, at)[0]
        except (struct.error, OverflowError):
            pass  # `at` is behind the end: the next line says so
        self.take(max(at - self.at, 8 * n))


def scalar(cursor: Cursor, kind: int) -> np.dtype[Any]:
    """The dtype of a scalar kind; anything else is no kind that the format has."""
    if kind not in DTYPES:
        cursor.fail(f"value type {kind} is unknown; 0 to 12 are allowed")
    return DTYPES[kind]


def numbers(cursor: Cursor, kind: int, n: int) -> Array:
    """The next n scalars of a kind, a view; booleans checked, since no other byte than 0 and 1 is one."""
    dtype = scalar(cursor, kind)
    raw = cursor.data[cursor.take(n * dtype.itemsize) : cursor.at]
    if kind == BOOL and (raw > 1).any():
        cursor.fail(f"boolean {int(np.argmax(raw > 1))} of {n} is stored as {raw.max()}; 0 or 1 is allowed")
    return raw.view(dtype)


def skip(cursor: Cursor, kind: int, depth: int = 0) -> None:
    """Step over a value, checking all of it except its strings' letters."""
    if kind == STRING:
        cursor.take(cursor.u64())
    elif kind != ARRAY:
        numbers(cursor, kind, 1)
    elif depth == DEEPEST:
        cursor.fail(f"arrays are nested more than {DEEPEST} deep")
    else:
        _skip_array(cursor, depth)


def _skip_array(cursor: Cursor, depth: int) -> None:
    kind = cursor.u32()
    if kind == ARRAY:
        n = cursor.count(12, MOST_ARRAYS - cursor.arrays)
        cursor.arrays += n
        for _ in range(n):
            skip(cursor, ARRAY, depth + 1)
    elif kind == STRING:
        cursor.skip_strings(cursor.count(8))
    else:
        numbers(cursor, kind, cursor.count(scalar(cursor, kind).itemsize))


def decode_strings(cursor: Cursor, n: int) -> list[str]:
    """The next n strings, which `skip` has stepped over before."""
    begin, unpack, at, out = cursor.at, LENGTH.unpack_from, 0, []
    cursor.skip_strings(n)
    raw = bytes(cursor.view[begin : cursor.at])
    try:
        for _ in range(n):
            end = at + 8 + unpack(raw, at)[0]
            out.append(raw[at + 8 : end].decode())
            at = end
    except UnicodeDecodeError as e:
        cursor.fail(f"string {len(out)} of {n} is not UTF-8: {e.reason} at its byte {e.start}")
    return out


def decode(cursor: Cursor, kind: int) -> Any:
    """A value that `skip` has checked: int, float, bool, str, or a list of one of them or of lists."""
    if kind == STRING:
        return cursor.text()
    if kind != ARRAY:
        return numbers(cursor, kind, 1)[0].item()
    items, n = cursor.u32(), cursor.u64()
    if items == STRING:
        return decode_strings(cursor, n)
    if items == ARRAY:
        return [decode(cursor, ARRAY) for _ in range(n)]
    return numbers(cursor, items, n).tolist()


class Place(NamedTuple):
    """Where a value lies, and of what kind it is."""

    kind: int
    at: int


class Values(Mapping[str, Any]):
    """A file's values by key, decoded at the first read and kept. A string that is not UTF-8 raises GGUFError then."""

    def __init__(self, data: Array, source: str, places: dict[str, Place]) -> None:
        self._data, self._source, self._places, self._decoded = data, source, places, dict[str, Any]()

    def __getitem__(self, key: str) -> Any:
        if key not in self._decoded:
            place = self._places[key]
            self._decoded[key] = decode(Cursor(self._data, self._source, place.at, f"key {short(key)}"), place.kind)
        return self._decoded[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: object) -> bool:
        return key in self._places


def read_values(cursor: Cursor, n: int) -> Values:
    """The next n key-value pairs. Raises GGUFError for a key that comes twice."""
    places: dict[str, Place] = {}
    for i in range(n):
        cursor.what = f"key {i + 1} of {n}"
        key = cursor.text(LONGEST_NAME)
        cursor.what = f"key {short(key)}"
        if key in places:
            cursor.fail("it comes twice; keys are unique")
        kind = cursor.u32()
        places[key] = Place(kind, cursor.at)
        skip(cursor, kind)
    return Values(cursor.data, cursor.source, places)
