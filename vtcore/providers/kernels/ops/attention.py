"""Attention over pages, and without them."""

from __future__ import annotations

from vtcore import ops
from vtcore.providers.gpu.device import Device
from vtcore.providers.gpu.table import runs
from vtcore.providers.gpu.views import contiguous, entries, integers
from vtcore.providers.kernels.attending import CONSTANTS, FLOATS, REQUEST, SHARED, SINK, loop, too_wide
from vtcore.providers.kernels.declare import buffers, kernel
from vtcore.tensor import Tensor, empty

# From which entry on the token sees how many.
SEEN = """
    uint kept = h / share, begin = 0u, number = 0u, index = 0u;
    if (owned) {
        index = U32(LD_lengths(r)) + t - U32(LD_starts(r + 1u));
        uint end = U32(LD_until(t) + 1);
        if (window > 0u) begin = index + 1u > window ? index + 1u - window : 0u;
        else if (chunk > 0u) begin = index / chunk * chunk;
        number = end > begin ? end - begin : 0u;
    }
"""
BEND = """
        if (cap > 0.0f) score = vt_bent(score / cap) * cap;
        if (sloping > 0u) score -= LD_slopes(h) * F32(I32(index) - I32(entry));
"""
BENT = """
FN float vt_bent(float v) { return v > 15.0f ? 1.0f : v < -15.0f ? -1.0f : tanh(v); }
"""
PLACE = """
        uint page = 0u, place = 0u;
        if (source > 0u) {
            page = U32(LD_table(r * table_row + entry / size));
            place = entry % size;
            k = page * k_page + place * k_entry + kept * k_head;
            v = page * v_page + place * v_entry + kept * v_head;
        }
"""
READS = "q table:i32 starts:i32 lengths:i32 until:i32 sinks slopes"
SCALARS = (
    "heads share requests width value_width size row table_row k_page k_entry k_head k_channel v_page v_entry v_head v_channel "
    "window chunk sinking sloping scale:f32 cap:f32"
)
VALUE = "F32(LD_v_pages(places[e] + c * v_channel))"
PAGED = kernel(
    "paged_attention",
    buffers(reads=f"{READS} k_pages:{FLOATS} v_pages:{FLOATS}", writes="y"),
    SCALARS,
    REQUEST + SEEN + loop(place="entry = begin + one;" + PLACE, key="LD_k_pages(AT)", value=VALUE, sink=SINK, bend=BEND),
    helpers=BENT,
    shared=SHARED,
    constants=CONSTANTS,
)
# As PAGED, over the entries that are named, where some are, and pages of int8 with scales.
PAGED_BY_NAME = kernel(
    "paged_attention_by_name",
    buffers(reads=f"{READS} chosen:i32 k_scales v_scales k_pages:{FLOATS}|i8 v_pages:{FLOATS}|i8", writes="y"),
    f"{SCALARS} choosing named coded_k coded_v a_page a_entry a_head b_page b_entry b_head",
    REQUEST
    + SEEN
    + "    if (choosing > 0u) number = owned ? named : 0u;\n"
    + loop(
        place="""entry = begin + one;
        if (choosing > 0u && source > 0u) {
            int name = LD_chosen(t * named + one);
            source = name < 0 ? 0u : 1u;
            entry = U32(max(name, 0));
        }"""
        + PLACE,
        key="F32(LD_k_pages(AT))",
        value=VALUE,
        sink=SINK,
        bend="if (coded_k > 0u) score *= LD_k_scales(page * a_page + place * a_entry + kept * a_head);" + BEND,
        weigh="if (coded_v > 0u && source > 0u) weight *= LD_v_scales(page * b_page + place * b_entry + kept * b_head);",
    ),
    helpers=BENT,
    shared=SHARED,
    constants=CONSTANTS,
    resident=512,
)
ATTENTION = kernel(
    "attention",
    buffers(reads="q k_rows v_rows starts:i32", writes="y"),
    "heads requests width value_width row k_row v_row scale:f32",
    REQUEST
    + "    uint begin = 0u, number = 0u, k_channel = 1u;\n"
    + "    if (owned) { begin = U32(LD_starts(r)); number = U32(LD_starts(r + 1u)) - begin; }\n"
    + loop(
        place="if (source > 0u) { k = (begin + one) * k_row + h * width; v = (begin + one) * v_row + h * value_width; }",
        key="LD_k_rows(AT)",
        value="LD_v_rows(places[e] + c)",
    ),
    shared=SHARED,
    constants=CONSTANTS,
)


def _wide(device: Device, q: Tensor, v_pages: Tensor, **_: object) -> str | None:
    return too_wide(max(q.shape[2], v_pages.shape[3]))


@runs(ops.paged_attention, declines=_wide)
def paged_attention(
    device: Device, q: Tensor, k_pages: Tensor, v_pages: Tensor, table: Tensor, starts: Tensor, lengths: Tensor, until: Tensor,
    scale: float, window: int, chunk: int, cap: float, sinks: Tensor | None, chosen: Tensor | None, slopes: Tensor | None,
    k_scales: Tensor | None, v_scales: Tensor | None,
) -> Tensor:  # fmt: skip
    """A group of work items for each head of a token."""
    (tokens, heads, width), value_width = q.shape, v_pages.shape[3]
    (seen, row), pages = entries(device, q), integers(device, table)
    y = empty(device, (tokens, heads, value_width))
    tensors = [seen, pages, *(integers(device, x) for x in (starts, lengths, until)), *(_given(device, x, seen) for x in (sinks, slopes))]
    scalars = [
        heads, heads // k_pages.shape[2], table.shape[0], width, value_width, k_pages.shape[1], row, table.shape[1], *k_pages.strides,
        *v_pages.strides, window, chunk, sinks is not None, slopes is not None, scale, cap,
    ]  # fmt: skip
    if chosen is None and k_scales is None and v_scales is None:
        device.launch(PAGED, [*tensors, k_pages, v_pages, y], scalars, tokens * heads)
        return y
    named = pages if chosen is None else integers(device, chosen)
    tensors += [named, *(seen if x is None else x for x in (k_scales, v_scales)), k_pages, v_pages, y]
    scalars += [chosen is not None, 0 if chosen is None else chosen.shape[1], k_scales is not None, v_scales is not None]
    scalars += [step for x in (k_scales, v_scales) for step in ((0, 0, 0) if x is None else x.strides)]
    device.launch(PAGED_BY_NAME, tensors, scalars, tokens * heads)
    return y


def _given(device: Device, x: Tensor | None, instead: Tensor) -> Tensor:
    return instead if x is None else contiguous(device, x)


@runs(ops.attention, declines=lambda device, q, k, v, starts, scale: too_wide(max(q.shape[2], v.shape[2])))
def attention(device: Device, q: Tensor, k: Tensor, v: Tensor, starts: Tensor, scale: float) -> Tensor:
    """A group of work items for each head of a token."""
    (tokens, heads, width), value_width = q.shape, v.shape[2]
    seen, keys, values = (entries(device, x) for x in (q, k, v))
    y = empty(device, (tokens, heads, value_width))
    scalars = [heads, starts.shape[0] - 1, width, value_width, seen[1], keys[1], values[1], scale]
    device.launch(ATTENTION, [seen[0], keys[0], values[0], integers(device, starts), y], scalars, tokens * heads)
    return y
