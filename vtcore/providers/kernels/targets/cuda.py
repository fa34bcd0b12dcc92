"""CUDA C++ as NVRTC takes it: no header is included."""

from __future__ import annotations

from vtcore.providers.kernels.declare import Kernel
from vtcore.providers.kernels.targets import common, reductions

FLAGS = ("--std=c++17", "--fmad=false")  # a product and a sum are fused where a body says FMA, and nowhere else
HEAD = """
typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned char uchar;
#define FN __device__ __forceinline__
#define F32(x) ((float)(x))
#define U32(x) ((uint)(x))
#define I32(x) ((int)(x))
FN float vt_as_float(uint u) { return __uint_as_float(u); }
FN float vt_as_float(int i) { return __int_as_float(i); }
FN uint vt_as_uint(float f) { return __float_as_uint(f); }
FN uint vt_as_uint(int i) { return (uint)i; }
FN int vt_as_int(float f) { return __float_as_int(f); }
FN int vt_as_int(uint u) { return (int)u; }
#define AS_F32(x) vt_as_float(x)
#define AS_U32(x) vt_as_uint(x)
#define AS_I32(x) vt_as_int(x)
#define ABS(x) fabsf(x)
#define PRECISE
#define RINT(x) rintf(x)
#define RSQRT(x) rsqrtf(x)
#define FMA(a, b, c) fmaf(a, b, c)
#define BARRIER() __syncthreads()
#define GROUP vt_group
#define LANE threadIdx.x
#define INDEX (vt_group * WG + LANE)
"""
SHUFFLED = "for (uint k = 16u; k > 0u; k >>= 1) {{ float o = __shfl_xor_sync(0xffffffffu, v, k); v = {}; }}"
WARP = 32
WARPS = reductions.Subgroups(
    {name: SHUFFLED.format(joined.format("v", "o")) for name, joined in reductions.JOINED.items()},
    first="(lane & 31u) == 0u",
    number="lane >> 5",
    total="WG / 32u",
)
BEGIN = """    const uint vt_group = blockIdx.y * gridDim.x + blockIdx.x;
    if (vt_group >= vt_groups) return;
"""


def source(kernel: Kernel) -> str:
    """The text of one variant: an `extern "C"` function of the buffers and then `kernel.parameters`, on a grid of two axes."""
    access = common.accessors(kernel, "const uint*")
    arguments = [f"{'' if b.written else 'const '}{common.STORED[b.dtype]}* vt_{b.name}" for b in kernel.buffers]
    arguments += [f"const {common.SCALAR_TYPES[s.dtype]} {s.name}" for s in kernel.parameters]
    head = common.constants(kernel) + HEAD + common.prelude(kernel, access) + _reductions(kernel) + access + kernel.helpers
    body = common.shared(kernel, "__shared__") + BEGIN + kernel.body
    return f'{head}\nextern "C" __global__ void {_bounds(kernel)} {kernel.name}({", ".join(arguments)}) {{\n{body}}}\n'


def _reductions(kernel: Kernel) -> str:
    if not common.reduces(kernel):
        return ""
    takes, passed = "float* vt_red, uint lane, ", "vt_red, LANE, "
    return reductions.tree(takes, passed) if kernel.group % WARP else reductions.by_subgroups(WARPS, takes, passed)


def _bounds(kernel: Kernel) -> str:
    """How large a group is, and how many a processor holds at least, where the kernel says that: it bounds registers both ways."""
    return f"__launch_bounds__(WG, {kernel.resident // kernel.group})" if kernel.resident else "__launch_bounds__(WG)"
