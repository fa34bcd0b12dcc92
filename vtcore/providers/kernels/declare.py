"""A kernel: its buffers, its scalars, and one body in a C dialect that OpenCL C, CUDA C++, Metal and GLSL share.

A body sees `LD_x(i)` and `ST_x(i, v)` for a buffer x (from the view's first element on), scalars by name, GROUP, LANE, WG, INDEX
(GROUP * WG + LANE), BARRIER(), GROUP_SUM(v), GROUP_MAX(v), and the functions of `prelude`. PRECISE before a declaration of floats
keeps a target from reordering their sums. See docs/write-a-kernel.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import product
from typing import NamedTuple

from vtcore.errors import ProviderError
from vtcore.providers.kernels import lint

DTYPES = ("f32", "i32", "u32", "f16", "bf16", "e4m3", "e5m2", "u8", "i8", "bytes")  # bytes: of quantised blocks, read by U8_x, U16_x, U32_x
SCALARS = ("u32", "i32", "f32")
KERNELS: dict[str, Kernel] = {}


class Scalar(NamedTuple):
    """A value of 32 bits that all work items see."""

    name: str
    dtype: str


class Shared(NamedTuple):
    """An array that the work items of a group share; its length is an expression of constants and WG."""

    name: str
    dtype: str
    length: str


@dataclass(frozen=True)
class Buffer:
    """A tensor's elements: `dtypes` are those that a variant may be made for."""

    name: str
    dtypes: tuple[str, ...]
    written: bool = False

    @property
    def dtype(self) -> str:
        """The one dtype of a variant's buffer."""
        assert len(self.dtypes) == 1, f"buffer {self.name} has a dtype in a variant only"
        return self.dtypes[0]


@dataclass(frozen=True)
class Kernel:
    """What is declared. `of` picks a variant: a kernel whose buffers have one dtype each, and whose constants have values."""

    name: str
    buffers: tuple[Buffer, ...]
    scalars: tuple[Scalar, ...]
    body: str
    helpers: str = ""
    shared: tuple[Shared, ...] = ()
    constants: tuple[tuple[str, int], ...] = ()
    group: int = 64  # work items of a group
    resident: int = 0  # work items that CUDA's compiler fits on a processor at least; 0: as many as it likes
    where: str = field(default="", compare=False)

    def of(self, *dtypes: str) -> Kernel:
        """The variant for these dtypes of the buffers that have a choice, in order. ProviderError for others."""
        return _variant(self, dtypes)

    @property
    def variants(self) -> tuple[Kernel, ...]:
        """One for every combination of dtypes."""
        choices = [b.dtypes for b in self.buffers if len(b.dtypes) > 1]
        return tuple(self.of(*dtypes) for dtypes in product(*choices))

    @cached_property
    def parameters(self) -> tuple[Scalar, ...]:
        """What a launch hands over besides buffers: how many groups there are, where each view begins, then the kernel's own scalars."""
        return (Scalar("vt_groups", "u32"), *(Scalar(f"{b.name}_off", "u32") for b in self.buffers), *self.scalars)

    @property
    def meets(self) -> bool:
        """Whether work items of a group wait for each other."""
        return any(word in self.body for word in ("BARRIER", "GROUP_SUM", "GROUP_MAX"))


@lru_cache(None)
def _variant(kernel: Kernel, dtypes: tuple[str, ...]) -> Kernel:
    left, buffers = list(dtypes), []
    for b in kernel.buffers:
        if len(b.dtypes) == 1:
            buffers.append(b)
            continue
        if not left or left[0] not in b.dtypes:
            raise ProviderError(
                f"kernel {kernel.name}: buffer {b.name} is {left[0] if left else 'not given'}; it takes {', '.join(b.dtypes)}"
            )
        buffers.append(replace(b, dtypes=(left.pop(0),)))
    if left:
        raise ProviderError(
            f"kernel {kernel.name}: {len(dtypes)} dtypes were given; {len(dtypes) - len(left)} of its buffers have a choice"
        )
    return replace(kernel, name="_".join((kernel.name, *dtypes)), buffers=tuple(buffers))


def buffers(reads: str = "", writes: str = "", updates: str = "") -> tuple[Buffer, ...]:
    """Buffers by name, f32 where nothing else is said: `buffers(reads="x weight:f32|f16 ids:i32", writes="y", updates="pages")`.

    Those that are updated are read and written. They come in the order reads, updates, writes."""
    return (*_parse(reads, False), *_parse(updates, True), *_parse(writes, True))


def _parse(text: str, written: bool) -> Iterable[Buffer]:
    for word in text.split():
        name, _, dtypes = word.partition(":")
        yield Buffer(name, tuple((dtypes or "f32").split("|")), written)


def kernel(
    name: str,
    buffers: tuple[Buffer, ...],
    scalars: str,
    body: str,
    *,
    helpers: str = "",
    shared: Sequence[tuple[str, str, str]] = (),
    constants: dict[str, int] | None = None,
    group: int = 64,
    resident: int = 0,
) -> Kernel:
    """Declare a kernel. `scalars` are names, u32 where nothing else is said: "n row eps:f32". Its name gets the prefix `vt_`.

    `resident` is for a kernel that would spill: left alone, ptxas gives up registers so that a processor holds more work items, and keeps
    values in memory for that. Asked for 1024, it has up to 64 registers for each, for 512 up to 128, on every architecture.

    Raises ProviderError where the declaration or the body breaks the dialect's rules, with the rule and the line."""
    parts = [word.partition(":") for word in scalars.split()]
    made = Kernel(
        f"vt_{name}",
        buffers,
        tuple(Scalar(n, t or "u32") for n, _, t in parts),
        body,
        helpers,
        tuple(Shared(*s) for s in shared),
        tuple((constants or {}).items()),
        group,
        resident,
    )
    lint.declared(made)
    if KERNELS.setdefault(made.name, made) is not made:
        raise ProviderError(f"kernel {made.name} is declared twice")
    return made
