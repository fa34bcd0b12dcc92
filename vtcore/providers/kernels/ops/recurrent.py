"""A short convolution and gated delta nets: states that are walked token by token."""

from __future__ import annotations

from vtcore import ops
from vtcore.providers.gpu.device import Device
from vtcore.providers.gpu.pointwise import FLOATS
from vtcore.providers.gpu.table import runs
from vtcore.providers.kernels import maths, walks
from vtcore.providers.kernels.declare import Kernel, buffers, kernel
from vtcore.providers.kernels.ops.norm import plain
from vtcore.tensor import Tensor, empty

PAST = 7  # tokens that a work item of the convolution holds

CAUSAL_CONV = kernel(
    "causal_conv",
    buffers(reads=f"x weight:{FLOATS} bias:{FLOATS} {walks.READS}", updates="state", writes="y"),
    f"{walks.SCALARS} channels blocks held row tap tap_step biased activate",
    f"""
    uint c = GROUP % blocks * WG + LANE, asked = GROUP / blocks;
    bool live = c < channels;
{walks.WHO}
    float past[PAST], taps[PAST], newest = 0.0f, b = 0.0f;
    for (uint i = 0u; i < PAST; i++) {{
        taps[i] = 0.0f;
        if (live && i + held >= PAST) taps[i] = LD_weight((i + held - PAST) * tap + c * tap_step);
    }}
    if (live) newest = LD_weight(held * tap + c * tap_step);
    if (live && biased > 0u) b = LD_bias(c);
    if (!live) last = first;
    for (uint r = first; r < last; r++) {{
        uint from = U32(LD_source(r)) * slot + c * step, end = U32(LD_starts(r + 1u));
        for (uint i = 0u; i < PAST; i++) {{
            past[i] = 0.0f;
            if (i + held >= PAST) past[i] = LD_state(from + (i + held - PAST) * row_step);
        }}
        for (uint t = U32(LD_starts(r)); t < end; t++) {{
            float v = LD_x(t * row + c), total = 0.0f;
            for (uint i = 0u; i < PAST; i++) if (i + held >= PAST) total = FMA(past[i], taps[i], total);
            total = FMA(v, newest, total) + b;
            ST_y(t * channels + c, activate > 0u ? fn_silu(total) : total);
            for (uint i = 0u; i + 1u < PAST; i++) past[i] = past[i + 1u];
            past[PAST - 1u] = v;
            int kept = LD_slots(t);
            for (uint i = 0u; i < PAST; i++)
                if (kept >= 0 && i + held >= PAST) ST_state(U32(kept) * slot + c * step + (i + held - PAST) * row_step, past[i]);
        }}
    }}
{walks.REST.format(live="live", to="t * channels + c")}""",
    helpers=maths.text("fn_silu("),
    constants={"PAST": PAST},
)


def _conv_declines(device: Device, weight: Tensor, **_: object) -> str | None:
    taps = weight.shape[0]
    return None if taps <= PAST + 1 else f"weight has {taps} taps; the kernel holds {PAST + 1}"


@runs(ops.causal_conv, declines=_conv_declines)
def causal_conv(
    device: Device, x: Tensor, weight: Tensor, bias: Tensor | None, state: Tensor, source: Tensor, slots: Tensor, starts: Tensor,
    activate: bool,
) -> Tensor:  # fmt: skip
    """A work item for each channel of a request."""
    (seen, row), y, channels, requests = walks.tokens(device, x), empty(device, x.shape), x.shape[1], source.shape[0]
    blocks = -(-channels // CAUSAL_CONV.group)
    scalars = [
        requests,
        x.shape[0],
        *walks.steps(state),
        channels,
        blocks,
        weight.shape[0] - 1,
        row,
        *(n & 0xFFFFFFFF for n in weight.strides),
    ]
    tensors = [seen, weight, weight if bias is None else plain(device, bias), *walks.who(device, source, slots, starts), state, y]
    device.launch(CAUSAL_CONV, tensors, [*scalars, int(bias is not None), int(activate)], blocks * max(requests, 1))
    return y


DELTA = """
            float decay = fn_exp(LD_decay(t * decay_row + head * numbers)), old = 0.0f, ahead = 0.0f, value = 0.0f;
            if (live) value = LD_v(t * v_row + head * width + v);
            for (uint i = 0u; i < EACH; i++) {
                uint d = part + i * PARTS;
                if (d < depth) {
                    if (numbers > 1u) decay = fn_exp(LD_decay(t * decay_row + head * numbers + d));
                    s[i] = s[i] * decay;
                    old = FMA(s[i], LD_k(t * k_row + few * depth + d), old);
                }
            }
            olds[LANE] = old;
            BARRIER();
            old = 0.0f;
            for (uint p = 0u; p < PARTS; p++) old += olds[p * COLUMNS + column];
            float change = LD_beta(t * beta_row + head) * (value - old);
            for (uint i = 0u; i < EACH; i++) {
                uint d = part + i * PARTS;
                if (d < depth) {
                    s[i] = FMA(LD_k(t * k_row + few * depth + d), change, s[i]);
                    ahead = FMA(s[i], LD_q(t * q_row + few * depth + d), ahead);
                }
            }
            sums[LANE] = ahead;
            BARRIER();
            ahead = 0.0f;
            for (uint p = 0u; p < PARTS; p++) ahead += sums[p * COLUMNS + column];
            if (part == 0u && live) ST_y(to, ahead);
"""


def _delta(each: int) -> Kernel:
    return kernel(
        f"gated_delta_{each}",
        buffers(reads=f"q k v decay beta {walks.READS}", updates="state", writes="y"),
        f"{walks.SCALARS} heads depth width blocks kinds numbers turns q_row k_row v_row decay_row beta_row",
        walks.columns("    uint few = turns > 0u ? head % kinds : head / (heads / kinds);", DELTA),
        helpers=maths.text("fn_exp("),
        shared=(("olds", "f32", "WG"), ("sums", "f32", "WG")),
        constants={"PARTS": walks.PARTS, "COLUMNS": walks.COLUMNS, "EACH": each},
        group=walks.GROUP,
        resident=walks.resident(each),
    )


GATED_DELTA = {each: _delta(each) for each in (8, 16, 32)}  # numbers of a column that a work item holds


def _delta_declines(device: Device, q: Tensor, **_: object) -> str | None:
    return walks.too_deep("q", q.shape[2], GATED_DELTA)


@runs(ops.gated_delta, declines=_delta_declines)
def gated_delta(
    device: Device, q: Tensor, k: Tensor, v: Tensor, decay: Tensor, beta: Tensor, state: Tensor, source: Tensor, slots: Tensor,
    starts: Tensor, turns: bool,
) -> Tensor:  # fmt: skip
    """A group of work items for some columns of a head of a request."""
    (_, kinds, depth), (count, heads, width), requests = q.shape, v.shape, source.shape[0]
    seen, strides = zip(*(walks.tokens(device, t) for t in (q, k, v, decay, beta)), strict=True)
    blocks, y = -(-width // walks.COLUMNS), empty(device, v.shape)
    scalars = [requests, count, *walks.steps(state), heads, depth, width, blocks, kinds, decay.shape[2], int(turns), *strides]
    chosen = walks.chosen(GATED_DELTA, depth)
    device.launch(chosen, [*seen, *walks.who(device, source, slots, starts), state, y], scalars, blocks * heads * max(requests, 1))
    return y
