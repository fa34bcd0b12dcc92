"""What a block format's file says: how its raw blocks are taken apart, and what is kept of them in panels.

A panel is 2 registers' worth of rows (R), stored block by block as one ascending stream:

    block    heads: a float for each row, [heads][R]                          d, dmin
             then for every 32 values
               smalls: a byte for each row, [smalls][R]                       small scales
               planes: the codes' bits, [bits of the plane][R] words of 32    4-bit codes: 4 words a row

A plane of b bits keeps value 4 g + j of the 32 in byte j of word g b / 8, at bit g b % 8: so one shift and one mask give the codes of four
values of every row, in the bytes that dot products of bytes take.
A value is scale * (code - zero) - offset; codes are unsigned unless `signed`."""

from __future__ import annotations

from typing import ClassVar

from vtcore.providers.portable.isa import SIGN
from vtcore.providers.portable.lanes import Lanes
from vtcore.providers.portable.value import F32, I8, I32, Val, vec

BYTES = 0x01010101
GROUPS = 8  # of four values in 32


class Layout:
    """The base of a format's description. `raw` is the address of one raw block; sub counts runs of 32 values, g a run's groups of 4."""

    name: ClassVar[str]
    block: ClassVar[int] = 32  # values of a raw block
    nbytes: ClassVar[int]  # bytes of a raw block
    planes: tuple[int, ...]  # bits of a code, lowest plane first
    width: int = 32  # values that share a scale
    zero: int = 0
    signed: bool = False  # codes are 8-bit two's complement
    offsets: bool = False
    heads: int = 1
    head_dtype: str = "float16"
    smalls: int = 0
    smalls_signed: bool = False

    # raw blocks

    def head(self, k: Lanes, raw: Val) -> list[Val]:
        """The floats to keep for a row, as stored."""
        raise NotImplementedError(f"{type(self).__name__} doesn't define head")

    def small(self, k: Lanes, raw: Val, sub: int) -> list[Val]:
        """The bytes to keep for a row and 32 values."""
        return []

    def quad(self, k: Lanes, raw: Val, sub: int, g: int) -> Val:
        """The codes of four values as the bytes of an int32."""
        raise NotImplementedError(f"{type(self).__name__} doesn't define quad")

    # numbers: registers of rows, or one row's

    def number(self, code: Val) -> Val:
        """What codes (int32, `zero` taken away) stand for before they are scaled, as floats."""
        return code.cast("sitofp", F32)

    def scale(self, head: list[Val], small: list[Val], part: int) -> Val:
        """The scale of the part-th `width` of 32 values."""
        return head[0]

    def offset(self, head: list[Val], small: list[Val], part: int) -> Val:
        """What is taken away from that part's values."""
        raise NotImplementedError(f"{type(self).__name__} doesn't define offset")

    # panels

    @property
    def parts(self) -> int:
        """Scales of 32 values."""
        return max(1, 32 // self.width)

    @property
    def subs(self) -> int:
        return self.block // 32

    def head_bytes(self, k: Lanes) -> int:
        return self.heads * 2 * k.lanes * (2 if self.head_dtype == "float16" else 4)

    def sub_bytes(self, k: Lanes) -> int:
        return 2 * k.lanes * (self.smalls + 4 * sum(self.planes))

    def block_bytes(self, k: Lanes) -> int:
        """Bytes of a panel's block: all its rows."""
        return self.head_bytes(k) + self.subs * self.sub_bytes(k)

    def raised(self, k: Lanes) -> int:
        """What codes are stored above their values: `zero`, or what the instruction set wants of signed ones."""
        return k.isa.signed_zero if self.signed else self.zero

    def read_head(self, k: Lanes, block: Val, j: int) -> list[Val]:
        """A block's floats of register j (0 or 1) of the rows."""
        size = 2 if self.head_dtype == "float16" else 4
        return [k.floats(block + (i * 2 + j) * k.lanes * size, self.head_dtype) for i in range(self.heads)]

    def read_small(self, k: Lanes, sub: Val, j: int) -> list[Val]:
        """The bytes of 32 values, as floats."""
        how = "sext" if self.smalls_signed else "zext"
        found = [k.load(sub + (i * 2 + j) * k.lanes, vec(I8, k.lanes)) for i in range(self.smalls)]
        return [v.cast(how, I32).cast("sitofp", F32) for v in found]

    def read_quad(self, k: Lanes, sub: Val, g: int | Val, j: int) -> Val:
        """Register j of the codes of group g as stored: four bytes for every row."""
        address, code, place = sub + 2 * k.lanes * self.smalls, None, 0
        for bits in self.planes:
            word = k.load(address + ((g * bits) >> 3) * (8 * k.lanes) + j * k.width, k.VI)
            part = word if bits == 8 else _shifted(k, word, (g * bits) & 7) & (((1 << bits) - 1) * BYTES)
            code = part if code is None else code | (part << place)
            address, place = address + 8 * k.lanes * bits, place + bits
        assert code is not None
        return code

    def write_quads(self, k: Lanes, sub: Val, row: Val, quads: list[Val]) -> None:
        """Store the codes of one row and 32 values: GROUPS of them, four bytes each."""
        if self.signed and k.isa.signed_zero:
            quads = [q ^ SIGN for q in quads]
        address, place = sub + 2 * k.lanes * self.smalls + row * 4, 0
        for bits in self.planes:
            for word in range(bits):
                groups = range(word * 8 // bits, (word + 1) * 8 // bits)
                fields = [((quads[g] >> place) & (((1 << bits) - 1) * BYTES)) << (g * bits % 8) for g in groups]
                k.store(address + word * 8 * k.lanes, _union(fields))
            address, place = address + 8 * k.lanes * bits, place + bits


def _shifted(k: Lanes, word: Val, by: int | Val) -> Val:
    if isinstance(by, int):
        return word >> by if by else word
    return word >> k.splat(by.cast("trunc", I32))


def _union(values: list[Val]) -> Val:
    total = values[0]
    for v in values[1:]:
        total = total | v
    return total


def nibbles(k: Lanes, packed: Val, g: int) -> Val:
    """Group g of 32 values whose first 16 are the low nibbles of 16 bytes, the others the high ones."""
    return (k.load(packed + g % 4 * 4, I32) >> (g // 4 * 4)) & 0x0F0F0F0F


def spread(bits: Val) -> Val:
    """The low four bits, one into each byte."""
    return ((bits & 15) * 0x00204081) & BYTES
