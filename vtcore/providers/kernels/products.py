"""Kernels that multiply rows by a matrix [N K], made from how one kind of weight is read.

A group of 128 work items makes a tile of rows times 16 outputs. 16 lanes share an output: in each step of 256 columns a lane adds up 16 of
them, in four chains, and what the lanes have is added in their order at the end. So the order of additions for one result is the same
in every tile, whatever rows stand beside it. The rows of x that a tile needs stand in shared memory, a word of room after every 16."""

from __future__ import annotations

from typing import NamedTuple

from vtcore.providers.kernels.blocks import FORMS, Format, value
from vtcore.providers.kernels.declare import Kernel, buffers, kernel
from vtcore.quant.blocks import BlockFormat

GROUP, LANES, TERMS = 128, 16, 16  # work items; those that share an output; columns of a lane in a step
STEP = LANES * TERMS
# How many work items CUDA's compiler fits on a processor at least: left alone, it spills rows of blocks in tiles, or these by themselves
IN_TILES, ALONE = 256, {"dense": 1024, "mxfp4": 512}
OUTPUTS = 2  # of a lane; a group makes eight times as many
SCALARS = "k n rows x_stride w_stride biased y_stride chosen share w_each begin count"


class Weight(NamedTuple):
    """How a kernel reads a weight: `terms` sets 16 floats v of a lane in a step, which count where `when` holds, from the row at `line`."""

    name: str
    buffer: str  # as `buffers` takes it
    terms: str
    when: str
    lane: str  # where a lane's first and its next values of x stand in a row of the tile
    next: str
    grid: bool = False
    helpers: str = ""
    tiled: int = 0  # `resident` of a tile


def _dense() -> Weight:
    at = [f"column + {j * LANES}u + lane" for j in range(TERMS)]
    whole = " ".join(f"v[{j}] = LD_w(line + {a});" for j, a in enumerate(at))
    last = "\n".join(f"v[{j}] = 0.0f; if ({a} < k) v[{j}] = LD_w(line + {a});" for j, a in enumerate(at))
    terms = f"if (column + {STEP}u <= k) {{ {whole} }}\nelse {{ {last} }}"
    return Weight("dense", "w:f32|f16|bf16", terms, "true", "lane", "17u")


def _of_blocks(form: Format) -> Weight:
    (text, chunk), inside = form.text(), "column + lane * 16u < k"
    terms = f"{begin_of(form.fmt, 'line', f'({inside} ? column + lane * 16u : 0u)')}\n{text}\n" + "\n".join(
        f"v[{j}] = {value(chunk, j)};" for j in range(TERMS)
    )
    return Weight(form.fmt.name.lower(), "w:bytes", terms, inside, "lane * 17u", "1u", bool(form.grid), form.helpers, tiled=IN_TILES)


def begin_of(fmt: BlockFormat, line: str, column: str) -> str:
    """Text that sets `o` and `c`, as readers take them, from a row's beginning and a column that is a multiple of 16."""
    return f"uint first = {column}, c = first % {fmt.block}u / 16u, o = {line} + first / {fmt.block}u * {fmt.nbytes}u;"


WEIGHTS = {"dense": _dense()} | {name: _of_blocks(form) for name, form in FORMS.items()}


# Which rows and outputs a group makes. `chosen`: rows meet matrices by number, here the `count` from `begin` on; others aren't `here`.
PLACE = """
    uint row = GROUP % {tiles} * ROWS, listed = GROUP % {tiles} * (ROWS + 1u), lane = LANE % 16u, part = LANE / 16u;
    uint place = GROUP / {tiles} * (8u * OUTPUTS), end = k, base = 0u, mine = 0u;
    bool here = true;
    if (chosen > 0u) {{
        mine = {mine};
        base = (mine - begin) * w_each;
        here = mine - begin < count;
    }}
    if (!here) end = 0u;
    {lines}
"""
# the rows of x, from a column on
STAGE = """
        BARRIER();
        for (uint r = 0u; r < ROWS; r++) {{
            uint line = {line};
            for (uint j = LANE; j < SPAN; j += WG) {{
                float value = 0.0f;
                if (from + j < k) value = LD_x(line + from + j);
                tile[r * PITCH + j + j / TERMS] = value;
            }}
        }}
        BARRIER();
"""
SUMS = f"""
    float sums[ROWS * OUTPUTS];
    for (uint i = 0u; i < ROWS * OUTPUTS; i++) sums[i] = 0.0f;
    for (uint from = 0u; from < end; from += SPAN) {{{{
{STAGE}
        for (uint step = 0u; step < SPAN && from + step < k; step += 256u) {{{{
            uint column = from + step;
            {{lane}}
        }}}}
    }}}}
"""
# No loop is entered by some lanes only: PoCL 3.1 has been seen to let all of them into such a one behind a barrier.
LANE = """
            for (uint each = 0u; each < OUTPUTS; each++) {{
                uint line = base + min(place + each * 8u + part, n - 1u) * w_stride;
                float v[16];
                {terms}
                for (uint r = 0u; r < ROWS; r++) {{
                    uint at = r * PITCH + step + step / 16u + {lane};
                    float p = 0.0f, q = 0.0f, s = 0.0f, t = 0.0f;
                    {chains}
                    sums[r * OUTPUTS + each] += {when} ? (p + q) + (s + t) : 0.0f;
                }}
            }}
"""
TAIL = """
    BARRIER();
    for (uint i = 0u; i < ROWS * OUTPUTS; i++) tile[i * WG + LANE] = sums[i];
    BARRIER();
    uint which = min(LANE / 8u, ROWS * OUTPUTS - 1u);
    float total = 0.0f;
    for (uint l = 0u; l < 16u; l++) total += tile[which * WG + LANE % 8u * 16u + l];
    {store}
"""
STORE = """
    uint to = place + which % OUTPUTS * 8u + LANE % 8u, r = {row};
    if (LANE < ROWS * OUTPUTS * 8u && to < n && here && r < rows) {{
        if (biased > 0u) total += LD_bias(mine * y_stride + to);
        ST_y(r * y_stride + to, total);
    }}
"""
# the rows of a tile, and where each begins in x; in the place of one that isn't there stands the first, and what it gives isn't kept
LINES = """
    if (LANE < ROWS) {
        uint r = row + LANE;
        if (chosen > 0u) r = U32(LD_ids(listed + 1u + LANE));
        whose[LANE] = r;
        lines[LANE] = r < rows ? r / share * x_stride : 0u;
    }
    BARRIER();
"""


def chains(step: str) -> str:
    """Text that adds up 16 products in the four chains p, q, s and t."""
    return " ".join(f"{p} = FMA(v[{j}], tile[at + {j}u * {step}], {p});" for j, p in enumerate("pqst" * (TERMS // 4)))


def forms(rows: int) -> dict[str, str]:
    """What differs between a row by itself, whose matrix has its number, and a tile, whose numbers `grouping` lists."""
    if rows == 1:
        return {
            "tiles": "rows",
            "mine": "min(U32(LD_ids(row)), matrices - 1u)",
            "lines": "uint x_line = row / share * x_stride;",
            "line": "x_line",
            "store": STORE.format(row="row"),
        }
    return {
        "tiles": "tiles",
        "mine": "U32(LD_ids(listed))",
        "lines": LINES,
        "line": "lines[r]",
        "store": STORE.format(row="whose[which / OUTPUTS]"),
    }


def scalars(rows: int) -> str:
    """What a kernel for tiles of so many rows takes besides buffers."""
    return f"{SCALARS} {'matrices' if rows == 1 else 'tiles'}"


def tile_rows(rows: int) -> tuple[tuple[str, str, str], ...]:
    """The arrays that LINES fills."""
    return () if rows == 1 else (("whose", "u32", f"{rows}u"), ("lines", "u32", f"{rows}u"))


def product_kernel(weight: Weight, rows: int) -> Kernel:
    """The kernel for tiles of so many rows, which meet one matrix, or each its own by number."""
    alone, span = rows == 1, STEP * (4 if rows == 1 else 1)
    pitch = span + span // TERMS
    lane = LANE.format(when=weight.when, terms=weight.terms, lane=weight.lane, chains=chains(weight.next))
    return kernel(
        f"linear_{weight.name}_{rows}",
        buffers(reads=f"x {weight.buffer} bias ids:i32 {'grid:bytes' if weight.grid else ''}", writes="y"),
        scalars(rows),
        (PLACE + SUMS + TAIL).format(lane=lane, **forms(rows)),
        helpers=weight.helpers,
        shared=(("tile", "f32", f"{max(rows * pitch, rows * OUTPUTS * GROUP)}u"), *tile_rows(rows)),
        constants={"ROWS": rows, "OUTPUTS": OUTPUTS, "SPAN": span, "PITCH": pitch, "TERMS": TERMS},
        group=GROUP,
        resident=ALONE.get(weight.name, 0) if alone else weight.tiled,
    )
