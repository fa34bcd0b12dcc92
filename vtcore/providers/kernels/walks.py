"""What kernels of ops with a state share: who walks which tokens, and a state of which each work item holds some numbers of one column.

Each request is walked by groups of its own, unless one writes a slot that another reads or writes: then the first request's groups walk
all, one after the other, as the definition does. What a token computes doesn't depend on it, so no bit does."""

from __future__ import annotations

from collections.abc import Mapping

from vtcore.providers.gpu.device import Device, is_float32
from vtcore.providers.gpu.views import contiguous, integers
from vtcore.providers.kernels.declare import Kernel
from vtcore.tensor import Tensor

PARTS, COLUMNS = 8, 16  # a group: so many work items share the numbers of each of so many columns
GROUP = PARTS * COLUMNS
READS, SCALARS = "source:i32 slots:i32 starts:i32", "requests tokens slot head_step row_step step"

# needs `asked`, the group's request; gives `first` and `last`, the requests that it walks
WHO = """
    float clash = 0.0f;
    uint looked = requests > 1u ? tokens : 0u;
    for (uint t = LANE; t < looked; t += WG) {
        int kept = LD_slots(t);
        if (kept >= 0) {
            uint begin = 0u, end = 0u;
            for (uint r = 0u; r < requests; r++) {
                uint b = U32(LD_starts(r)), e = U32(LD_starts(r + 1u));
                if (t >= b && t < e) { begin = b; end = e; }
            }
            for (uint r = 0u; r < requests; r++) if (LD_source(r) == kept && U32(LD_starts(r)) != begin && end > 0u) clash = 1.0f;
            for (uint u = end; u < tokens; u++) if (LD_slots(u) == kept && end > 0u) clash = 1.0f;
        }
    }
    clash = GROUP_MAX(clash);
    uint first = asked, last = min(asked + 1u, requests);
    if (clash > 0.0f) last = asked == 0u ? requests : asked;
"""

# needs `live`, whether the work item has results, and `to(t)`, where; the rows of no request become zeros
REST = """
    if ({live}) {{
        uint before = asked == 0u ? U32(LD_starts(0u)) : 0u;
        for (uint t = 0u; t < before; t++) ST_y({to}, 0.0f);
        uint behind = asked + 1u == max(requests, 1u) ? U32(LD_starts(requests)) : tokens;
        for (uint t = behind; t < tokens; t++) ST_y({to}, 0.0f);
    }}
"""


def columns(before: str, token: str) -> str:
    """The body of a walk over states [depth, width] of several heads.

    `token` changes s[i], which is row part + i * PARTS of column v, and stores y."""
    return f"""
    uint part = LANE / COLUMNS, column = LANE % COLUMNS, v = GROUP % blocks * COLUMNS + column;
    uint head = GROUP / blocks % heads, asked = GROUP / blocks / heads, base = head * head_step + v * step;
    bool live = v < width;
{WHO}
    float s[EACH];
{before}
    for (uint r = first; r < last; r++) {{
        uint from = U32(LD_source(r)) * slot + base, end = U32(LD_starts(r + 1u));
        for (uint i = 0u; i < EACH; i++) {{
            uint d = part + i * PARTS;
            s[i] = 0.0f;
            if (d < depth && live) s[i] = LD_state(from + d * row_step);
        }}
        for (uint t = U32(LD_starts(r)); t < end; t++) {{
            uint to = (t * heads + head) * width + v;
{token}
            int kept = LD_slots(t);
            for (uint i = 0u; i < EACH; i++) {{
                uint d = part + i * PARTS;
                if (kept >= 0 && d < depth && live) ST_state(U32(kept) * slot + base + d * row_step, s[i]);
            }}
        }}
    }}
{REST.format(live="part == 0u && live", to="(t * heads + head) * width + v")}"""


def who(device: Device, source: Tensor, slots: Tensor, starts: Tensor) -> list[Tensor]:
    """The tensors of READS."""
    return [integers(device, t) for t in (source, slots, starts)]


def tokens(device: Device, x: Tensor) -> tuple[Tensor, int]:
    """x as float32 whose tokens are contiguous, and the stride between them: itself where it can be seen so, else a copy."""
    if is_float32(x) and x.ndim and dense(x) and x.strides[0] >= 0:
        return x, x.strides[0]
    copied = contiguous(device, x)
    return copied, copied.strides[0]


def dense(x: Tensor) -> bool:
    """Whether each of a tensor's rows (along the first axis) is contiguous."""
    return Tensor(x.storage, x.shape[1:], x.dtype, x.strides[1:]).contiguous


def steps(state: Tensor) -> list[int]:
    """A state's strides: of a slot, a head (0 where there is none), a row and a column."""
    slot, *heads, row, column = (n & 0xFFFFFFFF for n in state.strides)
    return [slot, *(heads or [0]), row, column]


def resident(each: int) -> int:
    """How many work items of a walk, which hold so many numbers each, a processor takes at least: none of them must go to memory."""
    return 512 if each < 32 else 384


def too_deep(name: str, depth: int, kernels: Mapping[int, Kernel]) -> str | None:
    """Why no kernel holds so many numbers of a column, or None."""
    most = max(kernels) * PARTS
    return None if depth <= most else f"{name} has {depth} numbers a head; the kernels hold {most}"


def chosen(kernels: Mapping[int, Kernel], depth: int) -> Kernel:
    """The one whose work items hold as few numbers as will do."""
    return kernels[min(each for each in kernels if each * PARTS >= depth)]
