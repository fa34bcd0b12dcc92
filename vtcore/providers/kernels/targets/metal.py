"""Metal Shading Language 2.4 (Apple, 2021). Held against a stand-in for its library; Apple's compiler never saw it."""

from __future__ import annotations

from vtcore.providers.kernels.declare import Kernel
from vtcore.providers.kernels.targets import common, reductions

HEAD = """
#pragma METAL fp contract(off)
#define FN inline
#define F32(x) float(x)
#define U32(x) uint(x)
#define I32(x) int(x)
#define AS_F32(x) as_type<float>(x)
#define AS_U32(x) as_type<uint>(x)
#define AS_I32(x) as_type<int>(x)
#define ABS(x) fabs(x)
#define PRECISE
#define RINT(x) rint(x)
#define RSQRT(x) rsqrt(x)
#define FMA(a, b, c) fma(a, b, c)
#define BARRIER() threadgroup_barrier(mem_flags::mem_threadgroup)
#define GROUP vt_group
#define LANE vtm_lane
#define INDEX (vt_group * WG + LANE)
"""
LIBRARY = "#include <metal_stdlib>\nusing namespace metal;\n"
BEGIN = """    const uint vt_group = vtm_at.y * vtm_grid.x + vtm_at.x;
    if (vt_group >= vt_groups) return;
"""
PLACE = (
    "uint3 vtm_at [[threadgroup_position_in_grid]]",
    "uint3 vtm_grid [[threadgroups_per_grid]]",
    "uint vtm_lane [[thread_index_in_threadgroup]]",
)

SUBGROUP_PLACE = (
    "uint vtm_own [[thread_index_in_simdgroup]]",
    "uint vtm_subgroup [[simdgroup_index_in_threadgroup]]",
    "uint vtm_subgroups [[simdgroups_per_threadgroup]]",
)
REDUCTIONS = reductions.by_subgroups(
    reductions.Subgroups({"sum": "v = simd_sum(v);", "max": "v = simd_max(v);"}, "own == 0u", "number", "count"),
    "threadgroup float* vt_red, uint own, uint number, uint count, ",
    "vt_red, vtm_own, vtm_subgroup, vtm_subgroups, ",
)


def source(kernel: Kernel) -> str:
    """The text of one variant. Buffers come first, in order; behind them one struct of `kernel.parameters`, by setBytes."""
    access = common.accessors(kernel, "device const uint*")
    reduced = REDUCTIONS if common.reduces(kernel) else ""
    head = LIBRARY + common.constants(kernel) + HEAD + common.prelude(kernel, access) + reduced + access + kernel.helpers
    fields = [(common.SCALAR_TYPES[s.dtype], s.name) for s in kernel.parameters]
    struct = f"struct {kernel.name}_p {{ {' '.join(f'{t} {n};' for t, n in fields)} }};\n"
    read = "".join(f"    const {t} {n} = vtm_p.{n};\n" for t, n in fields)
    body = common.shared(kernel, "threadgroup") + read + BEGIN + kernel.body
    return f"{head}\n{struct}kernel void {kernel.name}({', '.join(_arguments(kernel))}) {{\n{body}}}\n"


def _arguments(kernel: Kernel) -> list[str]:
    buffers = [
        f"device {'' if b.written else 'const '}{common.STORED[b.dtype]}* vt_{b.name} [[buffer({i})]]" for i, b in enumerate(kernel.buffers)
    ]
    return [
        *buffers,
        f"constant {kernel.name}_p& vtm_p [[buffer({len(kernel.buffers)})]]",
        *PLACE,
        *(SUBGROUP_PLACE if common.reduces(kernel) else ()),
    ]
