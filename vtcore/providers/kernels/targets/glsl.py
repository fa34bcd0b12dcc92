"""GLSL 4.50 for Vulkan 1.2 (Khronos, 2017 and 2020), without features that a device may lack;
where it has subgroups that add and compare, what is summed over a group is summed by them first.

Narrow types are parts of words of 32 bits."""

from __future__ import annotations

from vtcore.providers.kernels.declare import Buffer, Kernel
from vtcore.providers.kernels.prelude import needed
from vtcore.providers.kernels.targets import common, reductions
from vtcore.providers.kernels.targets.glsl_maths import functions

PUSHED = 128  # bytes of parameters that every device takes with a launch; more come from a storage buffer at the last binding
BITS = {"f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8, "u8": 8, "i8": 8}
HEAD = """
#define FN
#define F32(x) float(x)
#define U32(x) uint(x)
#define I32(x) int(x)
#define AS_F32(x) uintBitsToFloat(x)
uint vt_as_u32(float v) { return floatBitsToUint(v); }
uint vt_as_u32(int v) { return uint(v); }
uint vt_as_u32(uint v) { return v; }
#define AS_U32(x) vt_as_u32(x)
int vt_as_i32(float v) { return floatBitsToInt(v); }
int vt_as_i32(uint v) { return int(v); }
int vt_as_i32(int v) { return v; }
#define AS_I32(x) vt_as_i32(x)
#define ABS(x) abs(x)
#define PRECISE precise
#define RINT(x) roundEven(x)
#define RSQRT(x) inversesqrt(x)
#define FMA(a, b, c) fma(a, b, c)
#define BARRIER() barrier()
#define GROUP vt_group
#define LANE gl_LocalInvocationID.x
#define INDEX (vt_group * WG + LANE)
"""
EXTENSIONS = """
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
"""
SUBGROUPS = reductions.Subgroups(
    {"sum": "v = subgroupAdd(v);", "max": "v = subgroupMax(v);"}, "subgroupElect()", "gl_SubgroupID", "gl_NumSubgroups"
)
BEGIN = """    uint vt_group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    if (vt_group >= vt_groups) return;
"""


def sources(kernel: Kernel) -> tuple[str, ...]:
    """All texts of one variant: the plain one, and the one for devices with subgroups where that differs."""
    return (source(kernel), source(kernel, subgroups=True)) if common.reduces(kernel) else (source(kernel),)


def source(kernel: Kernel, subgroups: bool = False) -> str:
    """The text of one variant. Those that sum or compare nothing over a group have the same with subgroups."""
    by_subgroups = subgroups and common.reduces(kernel)
    access = "".join(_accessors(b) for b in kernel.buffers)
    parts = (
        "#version 450\n",
        EXTENSIONS if by_subgroups else "",
        common.constants(kernel),
        f"layout(local_size_x = {kernel.group}) in;\n",
        *(_declared(i, b) for i, b in enumerate(kernel.buffers)),
        _parameters(kernel),
        common.shared(kernel, "shared"),
        HEAD,
        needed(access + kernel.body + kernel.helpers, quotient=False),
        functions(kernel),
        _reductions(by_subgroups) if common.reduces(kernel) else "",
        access,
        kernel.helpers,
    )
    return f"{''.join(parts)}\nvoid main() {{\n{BEGIN}{kernel.body}}}\n"


def _reductions(subgroups: bool) -> str:
    return reductions.by_subgroups(SUBGROUPS) if subgroups else reductions.tree(lane="LANE")


def pushes(kernel: Kernel) -> bool:
    """Whether a launch's parameters go with it, and not in a buffer."""
    return 4 * len(kernel.parameters) <= PUSHED


def _parameters(kernel: Kernel) -> str:
    begin = "push_constant) uniform" if pushes(kernel) else f"std430, set = 0, binding = {len(kernel.buffers)}) readonly buffer"
    members = " ".join(f"{common.SCALAR_TYPES[s.dtype]} {s.name};" for s in kernel.parameters)
    return f"layout({begin} vt_parameters {{ {members} }};\n"


def _declared(binding: int, b: Buffer) -> str:
    stored = common.SCALAR_TYPES.get(b.dtype, "uint")
    access = "" if b.written else "readonly "
    return f"layout(std430, set = 0, binding = {binding}) {access}buffer vt_b{binding} {{ {stored} vt_{b.name}[]; }};\n"


def _accessors(b: Buffer) -> str:
    n, at = b.name, f"vt_{b.name}[{b.name}_off + (i)]"
    if b.dtype == "bytes":
        return _bytes(n)
    if b.dtype in common.SCALAR_TYPES:
        store = f"#define ST_{n}(i, v) {at} = {common.SCALAR_TYPES[b.dtype]}(v)\n"
        return f"#define LD_{n}(i) {at}\n{store if b.written else ''}"
    return _load(b) + (_store(b) if b.written else "")


def _bytes(n: str) -> str:
    """A byte, two at an even offset, four at a multiple of four."""
    word = f"vt_{n}[a >> 2]"
    return (
        f"uint U8_{n}(uint i) {{ uint a = {n}_off + i; return ({word} >> ((a & 3u) << 3)) & 255u; }}\n"
        f"uint U16_{n}(uint i) {{ uint a = {n}_off + i; return ({word} >> ((a & 2u) << 3)) & 65535u; }}\n"
        f"uint U32_{n}(uint i) {{ uint a = {n}_off + i; return {word}; }}\n"
    )


def _load(b: Buffer) -> str:
    """The part of a word that holds an element."""
    word, shift = _place(b)
    type_, value = "float", f"vt_from_{b.dtype}(({word} >> ({shift})) & {(1 << BITS[b.dtype]) - 1}u)"
    if b.dtype == "u8":
        type_, value = "uint", f"({word} >> ({shift})) & 255u"
    elif b.dtype == "i8":
        type_, value = "int", f"bitfieldExtract(int({word}), int({shift}), 8)"
    return f"{type_} LD_{b.name}(uint i) {{ uint a = {b.name}_off + i; return {value}; }}\n"


def _store(b: Buffer) -> str:
    """Other work items may store to the same word at the same time: each clears and sets its own bits only."""
    word, shift = _place(b)
    mask = (1 << BITS[b.dtype]) - 1
    type_ = {"u8": "uint", "i8": "int"}.get(b.dtype, "float")
    bits = f"uint(v) & {mask}u" if b.dtype in ("u8", "i8") else f"vt_to_{b.dtype}(v)"
    return (
        f"void vt_st_{b.name}(uint i, {type_} v) {{ uint a = {b.name}_off + i; "
        f"atomicAnd({word}, ~({mask}u << ({shift}))); atomicOr({word}, ({bits}) << ({shift})); }}\n"
        f"#define ST_{b.name}(i, v) vt_st_{b.name}(i, {type_}(v))\n"
    )


def _place(b: Buffer) -> tuple[str, str]:
    """The word of the element a, and by how many bits the element is shifted there."""
    if BITS[b.dtype] == 16:
        return f"vt_{b.name}[a >> 1]", "(a & 1u) << 4"
    return f"vt_{b.name}[a >> 2]", "(a & 3u) << 3"
