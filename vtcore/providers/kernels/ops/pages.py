"""Writes into paged caches. A group of work items a token: where a later token has the same slot, it leaves that to the later one."""

from __future__ import annotations

from vtcore import ops
from vtcore.providers.gpu.device import Device
from vtcore.providers.gpu.table import runs
from vtcore.providers.gpu.views import entries, integers, joined_axes
from vtcore.providers.kernels.declare import buffers, kernel
from vtcore.tensor import Tensor

INNER_AXES = 3
# where the entry begins, and whether this token writes it
LAST = """
    int slot = LD_slots(token);
    float later = 0.0f;
    if (slot >= 0) for (uint i = token + 1u + LANE; i < tokens; i += WG) if (LD_slots(i) == slot) later = 1.0f;
    bool writes = GROUP_MAX(later) < 0.5f && slot >= 0;
    uint place = slot < 0 ? 0u : U32(slot), to = place / page * s_page + place % page * s_entry;
"""
WRITE_PAGES = kernel(
    "write_pages",
    buffers(reads="values slots:i32", updates="pages:f32|f16|bf16|e4m3|e5m2"),
    "tokens n row page s_page s_entry n1 n2 s0 s1 s2",
    f"""
    uint token = GROUP;
    {LAST}
    if (writes) for (uint i = LANE; i < n; i += WG) {{
        uint rest = i / n2;
        ST_pages(to + i % n2 * s2 + rest % n1 * s1 + rest / n1 * s0, LD_values(token * row + i));
    }}
""",
)
WRITE_PAGES_Q8 = kernel(
    "write_pages_q8",
    buffers(reads="values slots:i32", updates="pages:i8 scales:f32"),
    "tokens heads n row page s_page s_entry s_head s_channel c_page c_entry c_head",
    f"""
    uint token = GROUP / heads, head = GROUP % heads, from = token * row + head * n;
    float most = 0.0f, broken = 0.0f;
    for (uint i = LANE; i < n; i += WG) {{
        uint bits = AS_U32(LD_values(from + i)) & 0x7fffffffu;
        if (bits > 0x7f800000u) broken = 1.0f;
        else most = max(most, AS_F32(bits));
    }}
    float scale = vt_quotient(GROUP_MAX(most), 127.0f);
    if (GROUP_MAX(broken) > 0.5f) scale = AS_F32(0x7fc00000u);
    {LAST}
    if (writes) {{
        for (uint i = LANE; i < n; i += WG) ST_pages(to + head * s_head + i * s_channel, vt_code(LD_values(from + i), scale));
        // behind the loop: PoCL 3.1 lets work items beyond n into a loop that follows such a line
        if (LANE == 0u) ST_scales(place / page * c_page + place % page * c_entry + head * c_head, scale);
    }}
""",
    helpers="""
FN int vt_code(float value, float scale) {
    if (scale == 0.0f) return value > 0.0f ? 127 : value < 0.0f ? -127 : 0;
    float code = RINT(vt_quotient(value, scale));
    return code >= -127.0f && code <= 127.0f ? I32(code) : code > 127.0f ? 127 : code < -127.0f ? -127 : 0;
}
""",
)


def too_scattered(pages: Tensor, **_: object) -> str | None:
    """A page's entries may be cut up, as their axes lie, into so many axes at most."""
    axes = len(joined_axes(pages.shape[2:], pages.strides[2:]))
    return None if axes <= INNER_AXES else f"pages: an entry has {axes} axes at unlike strides; the kernel takes {INNER_AXES}"


@runs(ops.write_pages, declines=lambda device, pages, values, slots: too_scattered(pages))
def write_pages(device: Device, pages: Tensor, values: Tensor, slots: Tensor) -> None:
    """A group of work items a token, over its channels."""
    axes = joined_axes(pages.shape[2:], pages.strides[2:])
    axes = [(1, 0)] * (INNER_AXES - len(axes)) + axes
    seen, row = entries(device, values)
    count, width = slots.shape[0], pages[0, 0].size if pages.shape[0] else 0
    scalars = [count, width, row, pages.shape[1], *pages.strides[:2], max(axes[1][0], 1), max(axes[2][0], 1), *(s for _, s in axes)]
    device.launch(WRITE_PAGES, [seen, integers(device, slots), pages], scalars, count if width else 0)


@runs(ops.write_pages_q8)
def write_pages_q8(device: Device, pages: Tensor, scales: Tensor, values: Tensor, slots: Tensor) -> None:
    """A group of work items for each head of a token."""
    seen, row = entries(device, values)
    (count, heads, width), page = values.shape, pages.shape[1]
    scalars = [count, heads, width, row, page, *pages.strides, *scales.strides]
    device.launch(WRITE_PAGES_Q8, [seen, integers(device, slots), pages, scales], scalars, count * heads)
