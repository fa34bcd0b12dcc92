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
OUTPUTS = 2  # of a lane; a group makes eight times as many
SCALARS = "k n rows x_stride w_stride biased"
CHOICE = "chosen share w_each matrices"  # of kernels that take a matrix by its number


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
    resident: int = 0  # as `kernel` takes it, for one row


def _dense() -> Weight:
    at = [f"column + {j * LANES}u + lane" for j in range(TERMS)]
    whole = " ".join(f"v[{j}] = LD_w(line + {a});" for j, a in enumerate(at))
    last = "\n".join(f"v[{j}] = 0.0f; if ({a} < k) v[{j}] = LD_w(line + {a});" for j, a in enumerate(at))
    terms = f"if (column + {STEP}u <= k) {{ {whole} }}\nelse {{ {last} }}"
    return Weight("dense", "w:f32|f16|bf16", terms, "true", "lane", "17u", resident=1024)


def _of_blocks(form: Format) -> Weight:
    (text, chunk), inside = form.text(), "column + lane * 16u < k"
    terms = f"{begin_of(form.fmt, 'line', f'({inside} ? column + lane * 16u : 0u)')}\n{text}\n" + "\n".join(
        f"v[{j}] = {value(chunk, j)};" for j in range(TERMS)
    )
    return Weight(form.fmt.name.lower(), "w:bytes", terms, inside, "lane * 17u", "1u", bool(form.grid), form.helpers)


def begin_of(fmt: BlockFormat, line: str, column: str) -> str:
    """Text that sets `o` and `c`, as readers take them, from a row's beginning and a column that is a multiple of 16."""
    return f"uint first = {column}, c = first % {fmt.block}u / 16u, o = {line} + first / {fmt.block}u * {fmt.nbytes}u;"


WEIGHTS = {"dense": _dense()} | {name: _of_blocks(form) for name, form in FORMS.items()}


# which rows and outputs a group makes
PLACE = """
    uint tiles = (rows + ROWS - 1u) / ROWS, row = GROUP % tiles * ROWS, lane = LANE % 16u, part = LANE / 16u;
    uint place = GROUP / tiles * (8u * OUTPUTS), end = k, base = 0u;
    {choose}
"""
# the rows of x, from a column on
STAGE = """
        BARRIER();
        for (uint i = LANE; i < ROWS * SPAN; i += WG) {{
            uint r = row + i / SPAN, j = i % SPAN;
            float value = 0.0f;
            if (r < rows && from + j < k) value = LD_x({x_line} + from + j);
            tile[i / SPAN * PITCH + j + j / TERMS] = value;
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
    uint to = place + which % OUTPUTS * 8u + LANE % 8u, r = row + which / OUTPUTS;
    if (LANE < ROWS * OUTPUTS * 8u && {stores}) {{
        if (biased > 0u) total += LD_bias({bias});
        ST_y(r * n + to, total);
    }}
"""
# chosen: 0, the one matrix there is; 1, that of the row's number; e + 2, that with number e, for the rows that have it
CHOOSE = """
    uint mine = 0u, x_line = row / share * x_stride;
    if (chosen > 0u) mine = min(U32(LD_ids(row)), matrices - 1u);
    if (chosen > 1u && mine != chosen - 2u) end = 0u;
    if (chosen == 1u) base = mine * w_each;
"""


def chains(step: str) -> str:
    """Text that adds up 16 products in the four chains p, q, s and t."""
    return " ".join(f"{p} = FMA(v[{j}], tile[at + {j}u * {step}], {p});" for j, p in enumerate("pqst" * (TERMS // 4)))


def choices(alone: bool) -> dict[str, str]:
    """What differs where a kernel takes one row, and for each a matrix by its number."""
    stores = "to < n && end > 0u" if alone else "to < n && r < rows"
    return {
        "choose": CHOOSE if alone else "",
        "x_line": "x_line" if alone else "r * x_stride",
        "store": STORE.format(stores=stores, bias="mine * n + to" if alone else "to"),
    }


def product_kernel(weight: Weight, rows: int) -> Kernel:
    """The kernel for tiles of so many rows. That of one row also takes, for each row, a matrix by its number."""
    alone, span = rows == 1, STEP * (4 if rows == 1 else 1)
    pitch = span + span // TERMS
    lane = LANE.format(when=weight.when, terms=weight.terms, lane=weight.lane, chains=chains(weight.next))
    return kernel(
        f"linear_{weight.name}_{rows}",
        buffers(reads=f"x {weight.buffer} bias {'ids:i32' if alone else ''} {'grid:bytes' if weight.grid else ''}", writes="y"),
        f"{SCALARS} {CHOICE if alone else ''}",
        (PLACE + SUMS + TAIL).format(lane=lane, **choices(alone)),
        helpers=weight.helpers,
        shared=(("tile", "f32", f"{max(rows * pitch, rows * OUTPUTS * GROUP)}u"),),
        constants={"ROWS": rows, "OUTPUTS": OUTPUTS, "SPAN": span, "PITCH": pitch, "TERMS": TERMS},
        group=GROUP,
        resident=weight.resident if alone else 0,
    )
