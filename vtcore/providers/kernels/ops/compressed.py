"""Compressed entries, and attention over them and a window of plain ones."""

from __future__ import annotations

from vtcore import ops
from vtcore.providers.gpu.device import Device
from vtcore.providers.gpu.table import runs
from vtcore.providers.gpu.views import contiguous, integers
from vtcore.providers.gpu.views import entries as rows_of_tokens
from vtcore.providers.kernels.attending import CONSTANTS, FLOATS, REQUEST, SHARED, SINK, loop, too_wide
from vtcore.providers.kernels.declare import buffers, kernel
from vtcore.tensor import Tensor, empty

KEPT = "f32|f16|bf16"
# First the plain entries (source 1), then the compressed ones (source 2).
NEAR_AND_FAR = """
    uint index = 0u, begin = 0u, near = 0u, number = 0u;
    if (owned) {
        index = U32(LD_lengths(r)) + t - U32(LD_starts(r + 1u));
        begin = index + 1u > window ? index + 1u - window : 0u;
        near = index + 1u - begin;
        number = near + (choosing > 0u ? named : (index + 1u) / every);
    }
"""
PLACE = """
        uint k_channel = p_channel;
        entry = begin + one;
        if (one >= near && source > 0u) {
            source = 2u;
            entry = one - near;
            k_channel = e_channel;
            if (choosing > 0u) {
                int name = LD_chosen(t * named + entry);
                if (name < 0) source = 0u;
                entry = U32(max(name, 0));
            }
        }
        if (source == 1u) k = U32(LD_table(r * table_row + entry / p_size)) * p_page + entry % p_size * p_entry;
        if (source == 2u) k = U32(LD_entry_table(r * entry_row + entry / e_size)) * e_page + entry % e_size * e_entry;
        v = k;
"""
COMPRESSED_ATTENTION = kernel(
    "compressed_attention",
    buffers(
        reads=f"q table:i32 entry_table:i32 starts:i32 lengths:i32 sinks chosen:i32 pages:{FLOATS} entries:{FLOATS}",
        writes="y",
    ),
    "heads requests width row table_row entry_row p_size p_page p_entry p_channel e_size e_page e_entry e_channel window every sinking "
    "choosing named scale:f32",
    REQUEST
    + NEAR_AND_FAR
    + "    uint value_width = width;\n"
    + loop(
        place=PLACE,
        key="(source > 1u ? LD_entries(AT) : LD_pages(AT))",
        value="(sources[e] > 1u ? LD_entries(places[e] + c * e_channel) : LD_pages(places[e] + c * p_channel))",
        sink=SINK,
    ),
    shared=SHARED,
    constants=CONSTANTS,
    resident=1024,
)
# A token's score in a channel, and its value, by number: of the window before first, where there are two series.
COMPRESS = kernel(
    "compress",
    buffers(
        reads=f"ape weight table:i32 slots:i32 starts:i32 lengths:i32 kv:{KEPT} gate:{KEPT}",
        updates="y",
    ),
    "heads requests width every series size table_row v_page v_entry v_channel g_page g_entry g_channel eps:f32",
    REQUEST
    + """
    bool closes = LD_slots(t) >= 0 && owned;
    uint last = closes ? U32(LD_lengths(r)) + t + 1u - U32(LD_starts(r + 1u)) : 0u, first = closes ? last - every : 0u, back = 0u;
    if (series > 1u && first > 0u) back = every;
    float square = 0.0f;
    for (uint run = 0u; run < width; run += WG) {
        uint c = min(run + LANE, width - 1u);
        float top = -3.0e38f, sum = 0.0f, mixed = 0.0f;
        for (uint one = 0u; one < (closes ? every + back : 0u); one++) {
            uint entry = first + one - back, column = series > 1u && one >= back ? width + c : c;
            uint page = U32(LD_table(r * table_row + entry / size)), place = entry % size;
            float score = LD_gate(page * g_page + place * g_entry + column * g_channel) + LD_ape(entry % every * width * series + column);
            float highest = max(top, score), keep = exp(top - highest), w = exp(score - highest);
            sum = sum * keep + w;
            mixed = FMA(w, LD_kv(page * v_page + place * v_entry + column * v_channel), mixed * keep);
            top = highest;
        }
        if (closes) mixed = mixed / sum;
        if (run + LANE < width) {
            square = FMA(mixed, mixed, square);
            ST_y(t * width + c, mixed);
        }
    }
    float scale = 1.0f / sqrt(GROUP_SUM(square) / F32(width) + eps);
    for (uint run = 0u; run < width; run += WG) {
        uint c = min(run + LANE, width - 1u);
        if (run + LANE < width) ST_y(t * width + c, closes ? LD_y(t * width + c) * scale * LD_weight(c) : 0.0f);
    }
""",
    resident=1024,
)


@runs(ops.compress)
def compress(
    device: Device, kv: Tensor, gate: Tensor, ape: Tensor, weight: Tensor, table: Tensor, slots: Tensor, starts: Tensor, lengths: Tensor,
    eps: float,
) -> Tensor:  # fmt: skip
    """A group of work items a token, over its channels."""
    (every, columns), width, tokens = ape.shape, weight.shape[0], slots.shape[0]
    y = empty(device, (tokens, width))
    tensors = [contiguous(device, ape), contiguous(device, weight), *(integers(device, x) for x in (table, slots, starts, lengths))]
    scalars = [1, table.shape[0], width, every, columns // max(width, 1), kv.shape[1], table.shape[1], *kv.strides, *gate.strides, eps]
    device.launch(COMPRESS, [*tensors, kv, gate, y], scalars, tokens if width else 0)
    return y


def _wide(device: Device, q: Tensor, **_: object) -> str | None:
    return too_wide(q.shape[2])


@runs(ops.compressed_attention, declines=_wide)
def compressed_attention(
    device: Device, q: Tensor, pages: Tensor, entries: Tensor, table: Tensor, entry_table: Tensor, starts: Tensor, lengths: Tensor,
    scale: float, window: int, every: int, sinks: Tensor | None, chosen: Tensor | None,
) -> Tensor:  # fmt: skip
    """A group of work items for each head of a token."""
    tokens, heads, width = q.shape
    (seen, row), y, near = rows_of_tokens(device, q), empty(device, q.shape), integers(device, table)
    tensors = [seen, near, *(integers(device, x) for x in (entry_table, starts, lengths))]
    tensors += [seen if sinks is None else contiguous(device, sinks), near if chosen is None else integers(device, chosen)]
    steps = [step for x in (pages, entries) for step in (x.shape[1], x.strides[0], x.strides[1], x.strides[3])]
    scalars: list[int | float] = [
        heads,
        table.shape[0],
        width,
        row,
        table.shape[1],
        entry_table.shape[1],
        *steps,
        window,
        every,
        sinks is not None,
    ]
    scalars += [chosen is not None, 0 if chosen is None else chosen.shape[1], scale]
    device.launch(COMPRESSED_ATTENTION, [*tensors, pages, entries, y], scalars, tokens * heads)
    return y
