"""Kernels that multiply rows rounded to 8 bits by a quantised matrix: the float operations of the definition, in its order.

Codes are floats: sums of 32 products of bytes are whole numbers under 2^24, which float32 holds exactly in any order. A lane makes a whole
block of 32; what 16 lanes have is added by one of them, block after block."""

from __future__ import annotations

from vtcore.providers.kernels.blocks import Chunk, Format
from vtcore.providers.kernels.declare import Kernel, buffers, kernel
from vtcore.providers.kernels.products import (
    ALONE,
    GROUP,
    IN_TILES,
    LANES,
    OUTPUTS,
    PLACE,
    STAGE,
    begin_of,
    chains,
    forms,
    scalars,
    tile_rows,
)

BLOCK = 32  # activations that share a scale
SPAN = LANES * BLOCK
PITCH = SPAN + LANES
FACTS = 3  # of a rounded block: its scale, the sum of its first 16 codes, of its last 16

ROUND = kernel(
    "round_to_8_bits",
    buffers(reads="x", writes="codes facts"),
    "total blocks x_stride",
    """
    if (INDEX < total) {
        uint from = INDEX / blocks * x_stride + INDEX % blocks * 32u, bad = 0u;
        float most = 0.0f;
        for (uint i = 0u; i < 32u; i++) {
            float v = LD_x(from + i);
            if ((AS_U32(v) & 0x7f800000u) == 0x7f800000u) bad = 1u;
            most = max(most, ABS(v));
        }
        float scale = vt_quotient(most, 127.0f);
        bool usable = bad == 0u && scale > 0.0f;
        for (uint h = 0u; h < 2u; h++) {
            float sum = 0.0f;
            for (uint i = h * 16u; i < h * 16u + 16u; i++) {
                float code = 0.0f;
                if (usable) code = max(-127.0f, min(127.0f, RINT(vt_quotient(LD_x(from + i), scale))));
                sum += code;
                ST_codes(INDEX * 32u + i, code);
            }
            ST_facts(INDEX * 3u + 1u + h, sum);
        }
        ST_facts(INDEX * 3u, bad > 0u ? AS_F32(0x7fc00000u) : scale);
    }
""",
)
BODY = f"""
    uint which = min(LANE / 8u, ROWS * OUTPUTS - 1u);
    float total = 0.0f;
    for (uint from = 0u; from < end; from += SPAN) {{{{
{STAGE}
        for (uint each = 0u; each < OUTPUTS; each++) {{{{
            uint line = base + min(place + each * 8u + part, n - 1u) * w_stride, column = min(from + lane * 32u, k - 32u);
            float sums[ROWS], rests[ROWS], scale = 0.0f, least = 0.0f;
            for (uint r = 0u; r < ROWS; r++) {{{{ sums[r] = 0.0f; rests[r] = 0.0f; }}}}
            for (uint h = 0u; h < 2u; h++) {{{{
                float v[16];
                {{terms}}
                for (uint r = 0u; r < ROWS; r++) {{{{
                    uint at = r * PITCH + lane * 33u + h * 16u;
                    float p = 0.0f, q = 0.0f, s = 0.0f, t = 0.0f;
                    {{chains}}
                    {{half}}
                }}}}
            }}}}
            for (uint r = 0u; r < ROWS; r++) {{{{
                uint facts = {{facts}};
                {{whole}}
                blocks[(r * OUTPUTS + each) * WG + LANE] = from + lane * 32u < k ? sums[r] : 0.0f;
            }}}}
        }}}}
        BARRIER();
        for (uint l = 0u; l < 16u; l++) total += blocks[which * WG + LANE % 8u * 16u + l];
    }}}}
    {{store}}
"""


def rounded_kernel(form: Format, rows: int) -> Kernel:
    """The kernel for tiles of so many rows, which meet one matrix, or each its own by number."""
    (text, chunk), parts = form.text(), forms(rows)
    terms = [begin_of(form.fmt, "line", "column + h * 16u"), text, *(f"v[{j}] = {code};" for j, code in enumerate(chunk.codes))]
    terms.append(f"scale = {chunk.scale};" + (f" least = {chunk.offset};" if chunk.offset else ""))
    facts = f"({parts['line']} + column) / 32u * 3u"
    parts |= {"terms": "\n".join(terms), "chains": chains("1u"), "facts": facts, **_sums(chunk, facts)}
    return kernel(
        f"linear_q8_{form.fmt.name.lower()}_{rows}",
        buffers(reads=f"x facts w:bytes bias ids:i32 {'grid:bytes' if form.grid else ''}", writes="y"),
        scalars(rows),
        (PLACE + BODY).format(**parts),
        helpers=form.helpers,
        shared=(("tile", "f32", f"{rows * PITCH}u"), ("blocks", "f32", f"{rows * OUTPUTS * GROUP}u"), *tile_rows(rows)),
        constants={"ROWS": rows, "OUTPUTS": OUTPUTS, "SPAN": SPAN, "PITCH": PITCH, "TERMS": BLOCK},
        group=GROUP,
        resident=IN_TILES if rows > 1 else ALONE.get(form.fmt.name.lower(), 0),
    )


def _sums(chunk: Chunk, facts: str) -> dict[str, str]:
    """What is done with 16 exact products, and with a block's: where scales are for 16, they come in between."""
    minus = " - LD_facts(facts) * {rest}" if chunk.offset else ""
    if chunk.width == BLOCK:
        rest = minus.format(rest="(least * (LD_facts(facts + 1u) + LD_facts(facts + 2u)))")
        return {"half": "sums[r] += (p + q) + (s + t);", "whole": f"sums[r] = LD_facts(facts) * (scale * sums[r]){rest};"}
    half = "sums[r] += scale * ((p + q) + (s + t));" + (f" rests[r] += least * LD_facts({facts} + 1u + h);" if chunk.offset else "")
    return {"half": half, "whole": f"sums[r] = LD_facts(facts) * sums[r]{minus.format(rest='rests[r]')};"}
