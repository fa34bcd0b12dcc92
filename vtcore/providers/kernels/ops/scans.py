"""Selective scans of state space models: states that are walked token by token."""

from __future__ import annotations

from vtcore import ops
from vtcore.providers.gpu.device import Device
from vtcore.providers.gpu.table import runs
from vtcore.providers.gpu.views import contiguous
from vtcore.providers.kernels import maths, walks
from vtcore.providers.kernels.declare import Kernel, buffers, kernel
from vtcore.tensor import Tensor, empty

SUM = """
            sums[(t & 1u) * WG + LANE] = total;
            BARRIER();
            total = 0.0f;
            for (uint p = 0u; p < PARTS; p++) total += sums[(t & 1u) * WG + p * COLUMNS + column];
            if (part == 0u && live) ST_y(to, FMA(skip, value, total));
"""
SELECTIVE = f"""
            float time = 1.0f, value = 0.0f, total = 0.0f;
            if (timed > 0u) time = LD_dt(t * dt_row + head);
            if (live) value = LD_x(t * x_row + head * width + v);
            float decay = fn_exp(time * rate), fresh = time * value;
            for (uint i = 0u; i < EACH; i++) {{
                uint d = part + i * PARTS;
                if (d < depth) {{
                    s[i] = FMA(s[i], decay, LD_b(t * b_row + few * depth + d) * fresh);
                    total = FMA(s[i], LD_c(t * c_row + few * depth + d), total);
                }}
            }}
{SUM}"""
BY_CHANNEL = f"""
            float time = 0.0f, value = 0.0f, total = 0.0f;
            if (live) {{ time = LD_dt(t * dt_row + v); value = LD_x(t * x_row + v); }}
            float fresh = time * value;
            for (uint i = 0u; i < EACH; i++) {{
                uint d = part + i * PARTS;
                if (d < depth) {{
                    s[i] = FMA(s[i], fn_exp(time * rates[i]), LD_b(t * b_row + d) * fresh);
                    total = FMA(s[i], LD_c(t * c_row + d), total);
                }}
            }}
{SUM}"""
RATES = """
    float rates[EACH], skip = 0.0f;
    if (live) skip = LD_d(v);
    for (uint i = 0u; i < EACH; i++) {
        rates[i] = 0.0f;
        if (live && part + i * PARTS < depth) rates[i] = LD_rate((part + i * PARTS) * width + v);
    }
"""
RATE = """
    uint few = head / (heads / kinds);
    float rate = LD_a(head), skip = 0.0f;
    if (skipped > 0u) skip = LD_d(head);
"""


def _kernel(name: str, each: int, reads: str, scalars: str, before: str, token: str) -> Kernel:
    return kernel(
        f"{name}_{each}",
        buffers(reads=f"{reads} {walks.READS}", updates="state", writes="y"),
        f"{walks.SCALARS} heads depth width blocks {scalars}",
        walks.columns(before, token),
        helpers=maths.text("fn_exp("),
        shared=(("sums", "f32", "WG * 2u"),),
        constants={"PARTS": walks.PARTS, "COLUMNS": walks.COLUMNS, "EACH": each},
        group=walks.GROUP,
        resident=walks.resident(each),
    )


SELECTIVE_SCAN = {
    each: _kernel("selective_scan", each, "x dt a b c d", "kinds timed skipped x_row dt_row b_row c_row", RATE, SELECTIVE)
    for each in (2, 16, 32)
}
CHANNEL_SCAN = {
    each: _kernel("channel_scan", each, "x dt rate b c d", "x_row dt_row b_row c_row", RATES, BY_CHANNEL) for each in (2, 16, 32)
}


def _declines(device: Device, b: Tensor, **_: object) -> str | None:
    return walks.too_deep("b", b.shape[-1], SELECTIVE_SCAN)


@runs(ops.selective_scan, declines=_declines)
def selective_scan(
    device: Device, x: Tensor, dt: Tensor | None, a: Tensor, b: Tensor, c: Tensor, d: Tensor | None, state: Tensor, source: Tensor,
    slots: Tensor, starts: Tensor,
) -> Tensor:  # fmt: skip
    """A group of work items for some columns of a head of a request."""
    (count, heads, width), (_, kinds, depth), requests = x.shape, b.shape, source.shape[0]
    (values, row), (inputs, b_row), (outputs, c_row) = (walks.tokens(device, t) for t in (x, b, c))
    times, dt_row = (values, 0) if dt is None else walks.tokens(device, dt)
    skip = values if d is None else contiguous(device, d)
    blocks, y = -(-width // walks.COLUMNS), empty(device, x.shape)
    scalars = [requests, count, *walks.steps(state), heads, depth, width, blocks, kinds, int(dt is not None), int(d is not None)]
    tensors = [values, times, contiguous(device, a), inputs, outputs, skip, *walks.who(device, source, slots, starts), state, y]
    chosen = walks.chosen(SELECTIVE_SCAN, depth)
    device.launch(chosen, tensors, [*scalars, row, dt_row, b_row, c_row], blocks * heads * max(requests, 1))
    return y


@runs(ops.channel_scan, declines=_declines)
def channel_scan(
    device: Device, x: Tensor, dt: Tensor, rate: Tensor, b: Tensor, c: Tensor, d: Tensor, state: Tensor, source: Tensor, slots: Tensor,
    starts: Tensor,
) -> Tensor:  # fmt: skip
    """A group of work items for some channels of a request."""
    (count, width), depth, requests = x.shape, b.shape[1], source.shape[0]
    (values, x_row), (times, dt_row), (inputs, b_row), (outputs, c_row) = (walks.tokens(device, t) for t in (x, dt, b, c))
    blocks, y = -(-width // walks.COLUMNS), empty(device, x.shape)
    scalars = [requests, count, *walks.steps(state), 1, depth, width, blocks, x_row, dt_row, b_row, c_row]
    numbers = [contiguous(device, rate), inputs, outputs, contiguous(device, d)]
    tensors = [values, times, *numbers, *walks.who(device, source, slots, starts), state, y]
    device.launch(walks.chosen(CHANNEL_SCAN, depth), tensors, scalars, blocks * max(requests, 1))
    return y
