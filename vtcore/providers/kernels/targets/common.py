"""What the targets that have pointers share."""

from __future__ import annotations

from vtcore.providers.kernels.declare import Kernel
from vtcore.providers.kernels.prelude import needed

SCALAR_TYPES = {"f32": "float", "u32": "uint", "i32": "int"}
STORED = SCALAR_TYPES | {
    "f16": "ushort",
    "bf16": "ushort",
    "e4m3": "uchar",
    "e5m2": "uchar",
    "u8": "uchar",
    "i8": "signed char",
    "bytes": "uchar",
}
NARROW = ("f16", "bf16", "e4m3", "e5m2")


def accessors(kernel: Kernel, pointer: str) -> str:
    """LD_x, ST_x and U8_x, U16_x, U32_x of each buffer; `pointer` is how the target writes a pointer to const uint."""
    return "".join(line for b in kernel.buffers for line in _accessors(b.name, b.dtype, b.written, pointer))


def _accessors(n: str, dtype: str, written: bool, pointer: str) -> list[str]:
    at = f"vt_{n}[{n}_off + (i)]"
    if dtype == "bytes":
        return [
            f"#define U8_{n}(i) U32({at})\n",
            f"#define U16_{n}(i) (U32({at}) | (U32(vt_{n}[{n}_off + (i) + 1u]) << 8))\n",
            f"#define U32_{n}(i) ((({pointer})vt_{n})[({n}_off + (i)) >> 2])\n",
        ]
    if dtype in NARROW:
        stored = f"#define ST_{n}(i, v) {at} = ({STORED[dtype]})vt_to_{dtype}(v)\n"
        return [f"#define LD_{n}(i) vt_from_{dtype}(U32({at}))\n", *([stored] if written else [])]
    wide = {"u8": "U32", "i8": "I32"}.get(dtype, "")
    stored = f"#define ST_{n}(i, v) {at} = ({STORED[dtype]})(v)\n"
    return [f"#define LD_{n}(i) {wide}({at})\n", *([stored] if written else [])]


def constants(kernel: Kernel) -> str:
    """WG, and the kernel's own."""
    return "".join(f"#define {n} {v}u\n" for n, v in (("WG", kernel.group), *kernel.constants))


def shared(kernel: Kernel, space: str) -> str:
    """Declarations of what a group shares."""
    arrays = [(s.name, SCALAR_TYPES[s.dtype], s.length) for s in kernel.shared]
    if reduces(kernel):
        arrays.append(("vt_red", "float", "WG"))
    return "".join(f"    {space} {t} {n}[{length}];\n" for n, t, length in arrays)


def reduces(kernel: Kernel) -> bool:
    """Whether the body sums or compares over a group."""
    return "GROUP_SUM" in kernel.body or "GROUP_MAX" in kernel.body


def prelude(kernel: Kernel, definitions: str) -> str:
    """The shared conversions that a text with these definitions uses."""
    return needed(definitions + kernel.body + kernel.helpers)
