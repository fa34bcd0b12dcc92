"""What is done to logits: a work item a value."""

from __future__ import annotations

from vtcore import ops
from vtcore.providers.gpu.device import Device
from vtcore.providers.gpu.table import runs
from vtcore.providers.gpu.views import contiguous, copied, integers, rows
from vtcore.providers.kernels.declare import buffers, kernel
from vtcore.tensor import Tensor, empty

MASK = kernel(
    "apply_token_mask",
    buffers(reads="x mask:u8|i32", writes="y"),
    "total n row",
    """
    if (INDEX < total) {
        bool masked = U32(LD_mask(INDEX)) != 0u;
        ST_y(INDEX, masked ? AS_F32(0xff800000u) : LD_x(INDEX / n * row + INDEX % n));
    }
""",
)
# float32's 1e-5 is the largest that is under 1e-5
TEMPERATURE = kernel(
    "apply_temperature",
    buffers(reads="x temperature", writes="y"),
    "total n row",
    """
    if (INDEX < total) {
        float v = LD_x(INDEX / n * row + INDEX % n), t = LD_temperature(INDEX / n);
        ST_y(INDEX, t <= 1.0e-5f ? v : v / t);
    }
""",
)
PENALTIES = kernel(
    "apply_penalties",
    buffers(reads="x prompt_seen:u8|i32 counts:i32 repetition frequency presence", writes="y"),
    "total n row",
    """
    if (INDEX < total) {
        uint r = INDEX / n;
        float v = LD_x(r * row + INDEX % n);
        int count = LD_counts(INDEX);
        if (count > 0 || U32(LD_prompt_seen(INDEX)) != 0u) v = v > 0.0f ? v / LD_repetition(r) : v * LD_repetition(r);
        if (count > 0) v = v - LD_frequency(r) * F32(count) - LD_presence(r);
        ST_y(INDEX, v);
    }
""",
)
# A token that is named more than once is the business of the work item of its first name.
BIAS = kernel(
    "apply_logit_bias",
    buffers(reads="rows_of:i32 ids:i32 biases", updates="y"),
    "total n",
    """
    if (INDEX < total) {
        int r = LD_rows_of(INDEX), id = LD_ids(INDEX);
        bool first = true;
        for (uint i = 0u; i < INDEX; i++) if (LD_ids(i) == id && LD_rows_of(i) == r) first = false;
        if (first) {
            float v = LD_y(U32(r) * n + U32(id));
            for (uint i = INDEX; i < total; i++) if (LD_ids(i) == id && LD_rows_of(i) == r) v += LD_biases(i);
            ST_y(U32(r) * n + U32(id), v);
        }
    }
""",
)


@runs(ops.apply_token_mask)
def apply_token_mask(device: Device, logits: Tensor, mask: Tensor) -> Tensor:
    """A work item a value."""
    seen, y = rows(device, logits), empty(device, logits.shape)
    device.each(MASK, [seen.tensor, _flags(device, mask), y], [seen.width, seen.stride], y.size)
    return y


@runs(ops.apply_temperature)
def apply_temperature(device: Device, logits: Tensor, temperature: Tensor) -> Tensor:
    """A work item a value."""
    seen, y = rows(device, logits), empty(device, logits.shape)
    device.each(TEMPERATURE, [seen.tensor, contiguous(device, temperature), y], [seen.width, seen.stride], y.size)
    return y


@runs(ops.apply_penalties)
def apply_penalties(
    device: Device, logits: Tensor, prompt_seen: Tensor, counts: Tensor, repetition: Tensor, frequency: Tensor, presence: Tensor
) -> Tensor:
    """A work item a value."""
    seen, y = rows(device, logits), empty(device, logits.shape)
    numbers = [contiguous(device, x) for x in (repetition, frequency, presence)]
    tensors = [seen.tensor, _flags(device, prompt_seen), integers(device, counts), *numbers, y]
    device.each(PENALTIES, tensors, [seen.width, seen.stride], y.size)
    return y


@runs(ops.apply_logit_bias)
def apply_logit_bias(device: Device, logits: Tensor, rows: Tensor, ids: Tensor, values: Tensor) -> Tensor:
    """A copy, then a work item for each bias."""
    y = copied(device, logits)
    named = [integers(device, rows), integers(device, ids), contiguous(device, values)]
    device.each(BIAS, [*named, y], [logits.shape[1]], ids.size)
    return y


def _flags(device: Device, mask: Tensor) -> Tensor:
    return mask if mask.contiguous else integers(device, mask)
