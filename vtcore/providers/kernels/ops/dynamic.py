"""Angles of a rope whose base grows with its request."""

from __future__ import annotations

from math import log

import numpy as np

from vtcore import ops
from vtcore.providers.gpu.device import Device
from vtcore.providers.gpu.table import runs
from vtcore.providers.gpu.views import integers
from vtcore.providers.kernels.declare import buffers, kernel
from vtcore.providers.kernels.ops.rope import TURN
from vtcore.providers.kernels.pairs import EXP, LOG, REST
from vtcore.tensor import Tensor, empty

# frequency = e^(-2 i / turn * ln(base)), ln(base) = ln(theta) + power * ln(a * longer - b); pairs of floats are x and x_rest
DYNAMIC_ANGLES = kernel(
    "dynamic_angles",
    buffers(reads="positions:i32 starts:i32 lengths:i32", writes="y"),
    "total requests n longest a:f32 a_rest:f32 b:f32 b_rest:f32 power:f32 power_rest:f32 theta:f32 theta_rest:f32",
    """
    if (INDEX < total) {
        uint token = INDEX / (2u * n), part = INDEX / n % 2u, i = INDEX % n, r = 0u;
        bool owned = false;
        for (uint k = 0u; k < requests; k++) if (token >= U32(LD_starts(k)) && token < U32(LD_starts(k + 1u))) { r = k; owned = true; }
        float value = 0.0f;
        if (owned) {
            int position = LD_positions(token), longer = max(max(LD_lengths(r), position + 1), I32(longest));
            PRECISE float l = F32(longer), high = a * l, rest = vt_rest(a, l, high) + a_rest * l;
            PRECISE float less = high - b, back = less - high, left = ((high - (less - back)) - (b + back)) + rest - b_rest;
            PRECISE float ratio = less + left, ratio_rest = left - (ratio - less);
            float log_high = vt_log_of(ratio, ratio_rest, 0u), log_low = vt_log_of(ratio, ratio_rest, 1u);
            PRECISE float grown = power * log_high, grown_rest = vt_rest(power, log_high, grown) + power * log_low + power_rest * log_high;
            PRECISE float sum = theta + grown, sum_back = sum - theta;
            PRECISE float sum_rest = ((theta - (sum - sum_back)) + (grown - sum_back)) + grown_rest + theta_rest;
            float two = F32(2u * i), turn = F32(2u * n);
            PRECISE float step = -(two / turn), step_rest = -vt_rest(step, turn, -two) / turn;
            PRECISE float power_of_e = step * sum, its_rest = vt_rest(step, sum, power_of_e) + step * sum_rest + step_rest * sum;
            value = vt_circle(F32(position) * vt_exp_part(power_of_e, its_rest, 0u), part);
        }
        ST_y(INDEX, value);
    }
""",
    helpers=TURN + REST + LOG + EXP,
)


def pair(value: float) -> tuple[float, float]:
    """A float64 as two float32."""
    high = float(np.float32(value))
    return high, float(np.float32(value - high))


@runs(ops.dynamic_angles)
def dynamic_angles(
    device: Device, positions: Tensor, starts: Tensor, lengths: Tensor, theta: float, longest: int, factor: float, turn: int
) -> Tensor:
    """A work item a number."""
    y, numbers = empty(device, (positions.shape[0], 2, turn // 2)), (factor / longest, factor - 1, turn / (turn - 2), log(theta))
    scalars = [lengths.shape[0], turn // 2, longest, *(part for x in numbers for part in pair(x))]
    device.each(DYNAMIC_ANGLES, [*(integers(device, x) for x in (positions, starts, lengths)), y], scalars, y.size)
    return y
