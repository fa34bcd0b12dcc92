"""OpenCL C 1.2 (Khronos, 2012); with subgroups as cl_khr_subgroups and cl_intel_subgroups have them."""

from __future__ import annotations

from vtcore.providers.kernels.declare import Kernel
from vtcore.providers.kernels.targets import common, reductions

HEAD = """
#pragma OPENCL FP_CONTRACT OFF
#define FN static inline
#define F32(x) ((float)(x))
#define U32(x) ((uint)(x))
#define I32(x) ((int)(x))
#define AS_F32(x) as_float(x)
#define AS_U32(x) as_uint(x)
#define AS_I32(x) as_int(x)
#define ABS(x) fabs(x)
#define PRECISE
#define RINT(x) rint(x)
#define RSQRT(x) rsqrt(x)
#define FMA(a, b, c) fma(a, b, c)
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#define GROUP vt_group
#define LANE U32(get_local_id(0))
#define INDEX (vt_group * WG + LANE)
"""
EXTENSIONS = """
#if defined(cl_khr_subgroups)
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#elif !defined(cl_intel_subgroups)
#error "this compiler has no subgroups"
#endif
"""
SUBGROUPS = reductions.Subgroups(
    {"sum": "v = sub_group_reduce_add(v);", "max": "v = sub_group_reduce_max(v);"},
    first="get_sub_group_local_id() == 0u",
    number="get_sub_group_id()",
    total="get_num_sub_groups()",
)
# no work item leaves before the body: PoCL 3.1 then runs loops after a barrier for work items that they exclude
BEGIN = "    const uint vt_group = U32(get_group_id(0));\n"


def source(kernel: Kernel, subgroups: bool = False) -> str:
    """The text of one variant; what it sums or compares over a group, by subgroups where they are allowed."""
    access = common.accessors(kernel, "__global const uint*")
    arguments = [f"__global {'' if b.written else 'const '}{common.STORED[b.dtype]}* vt_{b.name}" for b in kernel.buffers]
    arguments += [f"const {common.SCALAR_TYPES[s.dtype]} {s.name}" for s in kernel.parameters]
    reduced = _reductions(subgroups) if common.reduces(kernel) else ""
    head = common.constants(kernel) + HEAD + common.prelude(kernel, access) + reduced + access + kernel.helpers
    group = "__attribute__((reqd_work_group_size(WG, 1, 1)))"
    body = common.shared(kernel, "__local") + BEGIN + kernel.body
    return f"{head}\n__kernel {group}\nvoid {kernel.name}({', '.join(arguments)}) {{\n{body}}}\n"


def _reductions(subgroups: bool) -> str:
    takes, passed = "__local float* vt_red, uint lane, ", "vt_red, LANE, "
    return EXTENSIONS + reductions.by_subgroups(SUBGROUPS, takes, passed) if subgroups else reductions.tree(takes, passed)
