"""Instruction sets: how wide a register is, and the few operations that each has its own instruction for.

Kernels are written once over these. `generic` is what any LLVM target compiles: no target's intrinsics, no calls of a library."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar

import llvmlite.binding as llvm

from vtcore.errors import ArgumentError, ProviderUnavailableError, nearest
from vtcore.providers.portable.value import F16, F32, I1, I8, I16, I32, VOID, Val, type_name, vec

if TYPE_CHECKING:
    from vtcore.providers.portable.lanes import Lanes

VARIABLE = "VTCORE_ISA"
SIGN = 0x80808080  # the sign bits of four bytes


@dataclass(frozen=True)
class Host:
    """What code may be compiled for: LLVM's names of the target, the CPU, and the features that it has."""

    triple: str
    cpu: str
    features: frozenset[str]
    flags: str  # every feature of the CPU as +on or -off

    @property
    def arch(self) -> str:
        return {"arm64": "aarch64", "amd64": "x86_64"}.get(first := self.triple.split("-")[0], first)


@cache
def host() -> Host:
    """The machine that this process runs on."""
    try:
        found = llvm.get_host_cpu_features()
    except RuntimeError:  # LLVM can't tell on this system: the architecture's baseline then
        return Host(llvm.get_process_triple(), "generic", frozenset(), "")
    return Host(llvm.get_process_triple(), llvm.get_host_cpu_name(), frozenset(f for f, on in found.items() if on), found.flatten())


class Isa:
    """The generic instruction set, and the base of the others."""

    name: ClassVar[str] = "generic"
    arch: ClassVar[str] = ""  # "": any
    needs: ClassVar[tuple[str, ...]] = ()  # features
    lanes: ClassVar[int] = 4  # floats in a register
    rows: ClassVar[int] = 4  # rows of a matrix product that are held in registers at once

    def __init__(self, machine: Host) -> None:
        self.machine = machine
        self.has = machine.features

    @property
    def cpu(self) -> str:
        """LLVM's name of the CPU to compile for."""
        return "generic"

    @property
    def unrolled(self) -> bool:
        """Whether a dot product of bytes is so few instructions that loops over them are best written out."""
        return False

    @property
    def flags(self) -> str:
        """Features that LLVM may use and may not use."""
        return ""

    @property
    def extras(self) -> tuple[str, ...]:
        """Optional features of this host that kernels use."""
        return ()

    @property
    def signed_zero(self) -> int:
        """What stored signed codes are raised by, so that `dot_signed` can take them."""
        return 0

    def __str__(self) -> str:
        return "+".join((self.name, *self.extras))

    def fma(self, k: Lanes, a: Val, b: Val, c: Val) -> Val:
        """a * b + c, in one rounding where the instruction set has that: always, or never."""
        return a * b + c

    def dot(self, k: Lanes, total: Val, codes: Val, x: Val) -> Val:
        """total[i] + the dot product of four bytes: codes (unsigned, 0 to 127) and x (signed, -127 to 127), as int32 lanes."""
        return self.dot_signed(k, total, codes, x)

    def dot_signed(self, k: Lanes, total: Val, codes: Val, x: Val) -> Val:
        """As dot, for signed codes, stored with `signed_zero` added to each (which the caller takes away again)."""
        halves = vec(I16, 2 * codes.type.count)
        c, y = codes.bitcast(halves), x.bitcast(halves)
        for product in ((c << 8).signed_shift(8) * (y << 8).signed_shift(8), c.signed_shift(8) * y.signed_shift(8)):
            both = product.bitcast(codes.type)
            total = total + both.signed_shift(16) + (both << 16).signed_shift(16)
        return total

    def from_half(self, k: Lanes, v: Val) -> Val:
        """float16 bits (int16) as float32, subnormals, infinities and NaN too."""
        bits = v.cast("zext", I32)
        size = (bits & 0x7FFF) << 13
        finite = size.cast("bitcast", F32) * 2.0**112
        special = size.cast("bitcast", I32) | 0x7F800000
        size = k.select(size >= 0x0F800000, special, finite.cast("bitcast", I32))
        return (size | ((bits & 0x8000) << 16)).cast("bitcast", F32)

    def to_half(self, k: Lanes, v: Val) -> Val:
        """float32 as float16 bits (int16), to nearest, ties to even."""
        bits = v.cast("bitcast", I32)
        size = bits & 0x7FFFFFFF
        tiny = (size.cast("bitcast", F32) + 0.5).cast("bitcast", I32) - 0x3F000000  # 0.5 has float16's smallest step as its own
        normal = (size - 0x38000000 + 0xFFF + ((size >> 13) & 1)) >> 13
        half = k.select(size < 0x38800000, tiny, normal)
        half = k.select(size >= 0x47800000, k.lift(0x7C00, size.type), half)
        half = k.select(size > 0x7F800000, k.lift(0x7E00, size.type), half)
        return (half | ((bits >> 16) & 0x8000)).cast("trunc", I16)

    def pause(self, k: Lanes) -> None:
        """One turn of a waiting loop."""


class _Wide(Isa):
    """What instruction sets with fused multiply-add and float16 conversions share."""

    @property
    def cpu(self) -> str:
        return self.machine.cpu

    @property
    def unrolled(self) -> bool:
        return True

    @property
    def flags(self) -> str:
        return self.machine.flags

    def fma(self, k: Lanes, a: Val, b: Val, c: Val) -> Val:
        return k.call(f"llvm.fma.{type_name(a.type)}", a.type, a, b, c)

    def from_half(self, k: Lanes, v: Val) -> Val:
        return v.cast("bitcast", F16).cast("fpext", F32)

    def to_half(self, k: Lanes, v: Val) -> Val:
        return v.cast("fptrunc", F16).cast("bitcast", I16)


class Avx2(_Wide):
    """256-bit registers. Without VNNI a product of bytes must not exceed 16 bits when two are added, so signs move to x."""

    name, arch = "avx2", "x86_64"
    needs: ClassVar[tuple[str, ...]] = ("avx2", "fma", "f16c")
    lanes, rows = 8, 4

    @property
    def flags(self) -> str:
        narrower = [f if not f[1:].startswith("avx512") else f"-{f[1:]}" for f in self.machine.flags.split(",")]
        return ",".join([*narrower, "-avx512f"])

    @property
    def extras(self) -> tuple[str, ...]:
        return ("vnni",) if "avxvnni" in self.has else ()

    def dot(self, k: Lanes, total: Val, codes: Val, x: Val) -> Val:
        if self.extras:
            return k.call("llvm.x86.avx512.vpdpbusd.256", total.type, total, codes, x)
        return total + self._pairs(k, codes.bitcast(vec(I8, 32)), x.bitcast(vec(I8, 32)))

    def dot_signed(self, k: Lanes, total: Val, codes: Val, x: Val) -> Val:
        bytes_ = vec(I8, 32)
        c, y = codes.bitcast(bytes_), x.bitcast(bytes_)
        size = k.call("llvm.abs.v32i8", bytes_, c, k.lift(0, I1))
        return self.dot(k, total, size.bitcast(total.type), k.call("llvm.x86.avx2.psign.b", bytes_, y, c).bitcast(total.type))

    def _pairs(self, k: Lanes, codes: Val, x: Val) -> Val:
        words = k.call("llvm.x86.avx2.pmadd.ub.sw", vec(I16, 16), codes, x)
        return k.call("llvm.x86.avx2.pmadd.wd", vec(I32, 8), words, k.lift(1, vec(I16, 16)))

    def pause(self, k: Lanes) -> None:
        k.call("llvm.x86.sse2.pause", VOID)


class Avx512(Avx2):
    """512-bit registers, 32 of them."""

    name = "avx512"
    needs: ClassVar[tuple[str, ...]] = ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma")
    lanes, rows = 16, 6

    @property
    def flags(self) -> str:
        return f"{self.machine.flags},-prefer-256-bit"

    @property
    def extras(self) -> tuple[str, ...]:
        return ("vnni",) if "avx512vnni" in self.has else ()

    @property
    def signed_zero(self) -> int:
        return 128 if self.extras else 0

    def dot(self, k: Lanes, total: Val, codes: Val, x: Val) -> Val:
        if self.extras:
            return k.call("llvm.x86.avx512.vpdpbusd.512", total.type, total, codes, x)
        return total + self._pairs(k, codes.bitcast(vec(I8, 64)), x.bitcast(vec(I8, 64)))

    def dot_signed(self, k: Lanes, total: Val, codes: Val, x: Val) -> Val:
        if self.extras:
            return self.dot(k, total, codes, x)
        bytes_ = vec(I8, 64)
        c, y = codes.bitcast(bytes_), x.bitcast(bytes_)
        size = k.call("llvm.abs.v64i8", bytes_, c, k.lift(0, I1))
        return total + self._pairs(k, size, k.select(c < 0, -y, y))

    def _pairs(self, k: Lanes, codes: Val, x: Val) -> Val:
        words = k.call("llvm.x86.avx512.pmaddubs.w.512", vec(I16, 32), codes, x)
        return k.call("llvm.x86.avx512.pmaddw.d.512", vec(I32, 16), words, k.lift(1, vec(I16, 32)))


class Neon(_Wide):
    """128-bit registers of 64-bit ARM, 32 of them."""

    name, arch = "neon", "aarch64"
    lanes, rows = 4, 6

    @property
    def extras(self) -> tuple[str, ...]:
        return ("dotprod",) if "dotprod" in self.has else ()

    def dot_signed(self, k: Lanes, total: Val, codes: Val, x: Val) -> Val:
        if not self.extras:
            return super().dot_signed(k, total, codes, x)
        bytes_ = vec(I8, 16)
        return k.call("llvm.aarch64.neon.sdot.v4i32.v16i8", total.type, total, codes.bitcast(bytes_), x.bitcast(bytes_))


ISAS: tuple[type[Isa], ...] = (Avx512, Avx2, Neon, Isa)  # best first


def lacks(isa: type[Isa], machine: Host) -> Sequence[str]:
    """What keeps a machine from running an instruction set: features or the architecture; empty if nothing does."""
    if isa.arch and isa.arch != machine.arch:
        return [f"architecture {isa.arch}"]
    return [f for f in isa.needs if f not in machine.features]


def available(machine: Host) -> list[str]:
    """The names of those that a machine runs, best first."""
    return [isa.name for isa in ISAS if not lacks(isa, machine)]


def choose(name: str | None = None, machine: Host | None = None) -> Isa:
    """The instruction set of that name (None: what the variable VTCORE_ISA says, else the best here).

    Raises ArgumentError for an unknown name, ProviderUnavailableError for one that this CPU lacks."""
    machine, name = machine or host(), name or os.environ.get(VARIABLE) or None
    for isa in ISAS:
        missing = lacks(isa, machine)
        if name is None and not missing:
            return isa(machine)
        if isa.name == name:
            if missing:
                raise ProviderUnavailableError(
                    f"instruction set {name!r} needs {', '.join(missing)}, which this machine ({machine.cpu}, {machine.arch}) lacks; "
                    f"it runs {', '.join(available(machine))}: choose one of those with {VARIABLE} or the option isa"
                )
            return isa(machine)
    known = [i.name for i in ISAS]
    hint = nearest(name, known)
    raise ArgumentError(f"there is no instruction set {name!r}{hint}; there are {', '.join(known)} ({VARIABLE}, option isa)")
