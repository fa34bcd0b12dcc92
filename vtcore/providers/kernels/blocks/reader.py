"""Text that reads 16 neighbours of a quantised block: a format is a function over a Reader that says where its parts lie.

In the text `o` is where the block begins, in bytes, and `c` which 16 of it are wanted. The weight's buffer is w."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import NamedTuple

from vtcore.quant.blocks import FORMATS, BlockFormat

TERMS = 16


class Chunk(NamedTuple):
    """16 values, scale * code - offset each, as float expressions. `width` neighbours share a scale and an offset."""

    codes: list[str]
    scale: str
    offset: str = ""
    width: int = 32


class Reader:
    """Collects statements; every method returns the name of what it has read, or an expression."""

    def __init__(self, fmt: BlockFormat) -> None:
        self.nbytes = fmt.nbytes
        self.lines: list[str] = []

    def let(self, text: str, kind: str = "uint") -> str:
        """A name for an expression."""
        name = f"b{len(self.lines)}"
        self.lines.append(f"{kind} {name} = {text};")
        return name

    def byte(self, at: str) -> str:
        """The byte at an offset in the block."""
        return self.let(f"U8_w(o + {at})")

    def pair(self, at: str) -> str:
        """Two bytes as a number; `at` is even, and so are blocks that have such."""
        return self.let(f"U16_w(o + {at})")

    def word(self, at: str, even: int = 4) -> str:
        """Four bytes as a number, read as the block's size and `even`, a divisor of `at`, allow."""
        aligned = gcd(self.nbytes, even, 4)
        reads = {4: f"U32_w(o + {at})", 2: f"U16_w(o + {at}) | (U16_w(o + {at} + 2u) << 16)"}
        single = " | ".join(f"(U8_w(o + {at} + {i}u) << {8 * i}u)" for i in range(4))
        return self.let(reads.get(aligned, single))

    def words(self, at: str, even: int = 4, count: int = 4) -> list[str]:
        """16 bytes as four numbers."""
        begin = self.let(at)
        return [self.word(f"{begin} + {4 * i}u", even) for i in range(count)]

    def half(self, at: str) -> str:
        """A float16 as a float."""
        return self.let(f"vt_from_f16(U16_w(o + {at}))", "float")

    def single(self, at: str) -> str:
        """A float32."""
        return self.let(f"AS_F32({self.word(at)})", "float")

    def fields(self, words: list[str], shift: str, mask: int) -> list[str]:
        """Of each byte the field at a shift, in place."""
        return [self.let(f"({w} >> ({shift})) & 0x{mask * 0x01010101:08x}u") for w in words]

    def with_high(self, low: list[str], high: list[str], left: int) -> list[str]:
        """Fields joined with those of their high bits."""
        return [self.let(f"{a} | ({b} << {left}u)") for a, b in zip(low, high, strict=True)]

    def nibbles(self, at: str, shift: str, even: int = 4) -> list[str]:
        """The low or the high nibbles of 16 bytes."""
        return self.fields(self.words(at, even), shift, 15)

    def signed(self, at: str, even: int = 4) -> list[str]:
        """16 bytes with signs, as floats."""
        return numbers([self.let(f"{w} ^ 0x80808080u") for w in self.words(at, even)], 128)


Function = Callable[[Reader], Chunk]


class Format(NamedTuple):
    """How kernels read a format: its function, what that needs beside it, and the grid that patterns come from."""

    fmt: BlockFormat
    function: Function
    helpers: str
    grid: str

    def text(self) -> tuple[str, Chunk]:
        """Statements, and the values after them."""
        reader = Reader(self.fmt)
        chunk = self.function(reader)
        return "\n".join(reader.lines), chunk


FORMS: dict[str, Format] = {}


def reads(name: str, helpers: str = "", grid: str = "") -> Callable[[Function], Function]:
    """Enter a function as how a format is read."""

    def enter(function: Function) -> Function:
        FORMS[name] = Format(FORMATS[name], function, helpers, grid)
        return function

    return enter


def bytes_of(words: list[str]) -> list[str]:
    """Each byte of some numbers, as an expression."""
    return [f"(({w} >> {8 * i}u) & 255u)" for w in words for i in range(4)]


def numbers(words: list[str], less: int = 0) -> list[str]:
    """Each byte as a float, less a number."""
    return [f"(F32({b}) - {less}.0f)" if less else f"F32({b})" for b in bytes_of(words)]


def value(chunk: Chunk, j: int) -> str:
    """The j-th of 16 values, each operation rounded as the format says."""
    scaled = f"{chunk.codes[j]} * {chunk.scale}"
    return f"{scaled} - {chunk.offset}" if chunk.offset else scaled
