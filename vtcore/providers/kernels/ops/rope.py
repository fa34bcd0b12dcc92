"""Rotary position: angles, what grows with positions, and turning by angles.

An angle may be of millions of radians, and what devices call sin and cos may be good to 11 bits. So it is multiplied by 2 / pi in
integers (Payne and Hanek, Radian reduction for trigonometric functions, 1983), and what is left of a quarter turn goes into
polynomials, those of Cephes (Moshier, 1989)."""

from __future__ import annotations

from vtcore import ops
from vtcore.providers.gpu.device import Device
from vtcore.providers.gpu.table import runs
from vtcore.providers.gpu.views import contiguous, entries, integers
from vtcore.providers.kernels.declare import buffers, kernel
from vtcore.tensor import Tensor, empty

# cos (part 0) or sin (part 1) of any float32 within 2 ulp of one
TURN = """
FN float vt_circle(float angle, uint part) {
    uint bits = AS_U32(angle), size = bits & 0x7fffffffu, quarter = 0u;
    float left = AS_F32(size);
    if (size >= 0x7f800000u) return AS_F32(0x7fc00000u);
    if (size > 0x3f490000u) {
        uint two_over_pi[7];
        two_over_pi[0] = 0u; two_over_pi[1] = 0xa2f9836eu; two_over_pi[2] = 0x4e441529u; two_over_pi[3] = 0xfc2757d1u;
        two_over_pi[4] = 0xf534ddc0u; two_over_pi[5] = 0xdb629599u; two_over_pi[6] = 0x3c439041u;
        uint m = (size & 0x7fffffu) | 0x800000u, begin = (size >> 23) - 120u, word = begin >> 5, by = begin & 31u;
        uint high = two_over_pi[word] << by, low = two_over_pi[word + 1u] << by;
        if (by > 0u) { high |= two_over_pi[word + 1u] >> (32u - by); low |= two_over_pi[word + 2u] >> (32u - by); }
        uint upper = low >> 16, turns = high * m + ((upper * (m >> 12)) >> 4) + ((upper * (m & 4095u)) >> 16);
        turns += ((low & 0xffffu) * (m >> 12)) >> 20;
        quarter = (turns + 0x20000000u) >> 30;
        uint rest = turns << 2;
        bool over = rest >= 0x80000000u;
        float r = F32(over ? 0u - rest : rest) * 3.65729516e-10f;
        left = over ? -r : r;
    }
    float square = left * left;
    float sine = left + left * square * (-1.6666654611e-1f + square * (8.3321608736e-3f + square * -1.9515295891e-4f));
    float cosine = 4.166664568298827e-2f + square * (-1.388731625493765e-3f + square * 2.443315711809948e-5f);
    cosine = 1.0f - 0.5f * square + square * square * cosine;
    uint which = (quarter + (part > 0u ? 0u : 1u)) & 3u;
    float value = (which & 1u) == 0u ? sine : cosine;
    if (which >= 2u) value = -value;
    return part > 0u && bits != size ? -value : value;
}
"""
ROPE_ANGLES = kernel(
    "rope_angles",
    buffers(reads="positions:i32 frequencies axes:i32", writes="y"),
    "total tokens n rows every scale:f32",
    """
    if (INDEX < total) {
        uint token = INDEX / (2u * n), part = INDEX / n % 2u, c = INDEX % n, row = 0u;
        if (rows > 0u) row = U32(LD_axes(c));
        int position = LD_positions(row * tokens + token), over = position % I32(every);
        if (over < 0) over += I32(every);
        ST_y(INDEX, vt_circle(F32(position - over) * LD_frequencies(c), part) * scale);
    }
""",
    helpers=TURN,
)
ROTATE = kernel(
    "rotate",
    buffers(reads="x angles", writes="y"),
    "total heads width n row pairs sign:f32",
    """
    if (INDEX < total) {
        uint d = INDEX % width, head = INDEX / width, from = head / heads * row + head % heads * width;
        if (d >= 2u * n) ST_y(INDEX, LD_x(from + d));
        else {
            uint turn = pairs > 0u ? d / 2u : d % n, second = pairs > 0u ? d % 2u : d / n, a = head / heads * 2u * n + turn;
            float one = LD_x(from + (pairs > 0u ? 2u * turn : turn)), two = LD_x(from + (pairs > 0u ? 2u * turn + 1u : turn + n));
            float c = LD_angles(a), s = LD_angles(a + n) * sign;
            ST_y(INDEX, second > 0u ? two * c + one * s : one * c - two * s);
        }
    }
""",
)
POSITION_GROWTH = kernel(
    "position_growth",
    buffers(reads="positions:i32", writes="y"),
    "total period shift rate:f32",
    """
    if (INDEX < total) ST_y(INDEX, 1.0f + rate * log(1.0f + F32((U32(LD_positions(INDEX)) + shift) / period)));
""",
)


@runs(ops.rope_angles)
def rope_angles(device: Device, positions: Tensor, frequencies: Tensor, scale: float, axes: Tensor | None, every: int) -> Tensor:
    """A work item a number."""
    tokens, n = positions.shape[-1], frequencies.shape[0]
    y, at = empty(device, (tokens, 2, n)), integers(device, positions)
    follows = at if axes is None else integers(device, axes)
    scalars = [tokens, max(n, 1), int(axes is not None), every, scale]
    device.each(ROPE_ANGLES, [at, contiguous(device, frequencies), follows, y], scalars, y.size)
    return y


@runs(ops.rotate)
def rotate(device: Device, x: Tensor, angles: Tensor, interleaved: bool, inverse: bool) -> Tensor:
    """A work item a channel."""
    y, (seen, row) = empty(device, x.shape), entries(device, x)
    scalars = [max(x.shape[1], 1), max(x.shape[2], 1), angles.shape[2], row, int(interleaved), -1.0 if inverse else 1.0]
    device.each(ROTATE, [seen, contiguous(device, angles), y], scalars, y.size)
    return y


@runs(ops.position_growth)
def position_growth(device: Device, positions: Tensor, period: int, rate: float, shift: int) -> Tensor:
    """A work item a token."""
    y = empty(device, positions.shape)
    device.each(POSITION_GROWTH, [integers(device, positions), y], [period, shift, rate], y.size)
    return y
