"""Residuals of several streams: hyper-connections, sums of streams by a token's own weights, and streams brought to one level."""

from __future__ import annotations

from vtcore import ops
from vtcore.providers.gpu.device import Device
from vtcore.providers.gpu.pointwise import FLOATS
from vtcore.providers.gpu.table import runs
from vtcore.providers.gpu.views import contiguous
from vtcore.providers.kernels import maths
from vtcore.providers.kernels.declare import buffers, kernel
from vtcore.providers.kernels.ops.norm import plain
from vtcore.tensor import Tensor, empty

MOST = 8  # streams; a group of work items holds a matrix of them

HYPER_MIXES = kernel(
    "hyper_mixes",
    buffers(reads=f"x fn:{FLOATS}", writes="z"),
    "width number eps:f32",
    """
    uint from = GROUP / number * width, at = GROUP % number * width;
    float dot = 0.0f, squares = 0.0f;
    for (uint i = LANE; i < width; i += WG) {
        float v = LD_x(from + i);
        dot = FMA(v, LD_fn(at + i), dot);
        squares = FMA(v, v, squares);
    }
    dot = GROUP_SUM(dot);
    squares = GROUP_SUM(squares);
    if (LANE == 0u) ST_z(GROUP, dot / sqrt(squares / F32(width) + eps));
""",
    group=256,
)
GATHER = """
    for (uint i = LANE; i < hidden; i += WG) {
        float sum = 0.0f;
        for (uint k = 0u; k < streams; k++) {
            float pre = fn_sigmoid(FMA(LD_z(GROUP * number + k), LD_scales(0u), LD_base(k))) + hc_eps;
            sum = FMA(pre, LD_x((GROUP * streams + k) * hidden + i), sum);
        }
        ST_h(GROUP * hidden + i, sum);
    }
"""
HYPER_HEAD = kernel(
    "hyper_head",
    buffers(reads="x z base scales", writes="h"),
    "number streams hidden hc_eps:f32",
    GATHER,
    helpers=maths.text(GATHER),
    group=256,
)
HYPER_IN = kernel(
    "hyper_in",
    buffers(reads="x z base scales", writes="h post comb"),
    "number streams hidden hc_eps:f32 rounds",
    """
    uint all = streams * streams, i = LANE / streams, j = LANE % streams, at = GROUP * number + 2u * streams;
    float v = 0.0f, sum = 0.0f;
    if (LANE < all) {
        v = FMA(LD_z(at + LANE), LD_scales(2u), LD_base(2u * streams + LANE));
        float top = v;
        for (uint k = 0u; k < streams; k++) {
            uint c = i * streams + k;
            top = max(top, FMA(LD_z(at + c), LD_scales(2u), LD_base(2u * streams + c)));
        }
        v = fn_exp(v - top);
        matrix[LANE] = v;
    }
    BARRIER();
    if (LANE < all) {
        for (uint k = 0u; k < streams; k++) sum += matrix[i * streams + k];
        v = v / sum + hc_eps;
    }
    for (uint n = 1u; n < 2u * rounds; n++) {
        BARRIER();
        if (LANE < all) matrix[LANE] = v;
        BARRIER();
        if (LANE < all) {
            sum = 0.0f;
            for (uint k = 0u; k < streams; k++) sum += (n & 1u) == 1u ? matrix[k * streams + j] : matrix[i * streams + k];
            v = v / (sum + hc_eps);
        }
    }
    if (LANE < all) ST_comb(GROUP * all + LANE, v);
    if (LANE < streams) {
        float z = FMA(LD_z(GROUP * number + streams + LANE), LD_scales(1u), LD_base(streams + LANE));
        ST_post(GROUP * streams + LANE, 2.0f * fn_sigmoid(z));
    }
"""
    + GATHER,
    helpers=maths.text(GATHER),
    shared=(("matrix", "f32", "64u"),),
    group=256,
)
HYPER_OUT = kernel(
    "hyper_out",
    buffers(reads="x block post comb", writes="y"),
    "total streams hidden",
    """
    if (INDEX < total) {
        uint i = INDEX % hidden, j = INDEX / hidden % streams, t = INDEX / hidden / streams;
        float sum = 0.0f;
        for (uint k = 0u; k < streams; k++) {
            sum = FMA(LD_comb((t * streams + k) * streams + j), LD_x((t * streams + k) * hidden + i), sum);
        }
        ST_y(INDEX, FMA(LD_post(t * streams + j), LD_block(t * hidden + i), sum));
    }
""",
)


def _many(device: Device, streams: Tensor, **_: object) -> str | None:
    return None if streams.shape[1] <= MOST else f"there are {streams.shape[1]} streams; the kernel mixes {MOST}"


def _mixes(device: Device, x: Tensor, fn: Tensor, eps: float) -> Tensor:
    """The products of every token's streams with the rows of fn [M F]: [T M]."""
    (tokens, streams, hidden), number = x.shape, fn.shape[0]
    z = empty(device, (tokens, number))
    device.launch(HYPER_MIXES, [x, plain(device, fn), z], [streams * hidden, number, eps], tokens * number)
    return z


@runs(ops.hyper_in, declines=_many)
def hyper_in(
    device: Device, streams: Tensor, fn: Tensor, base: Tensor, scales: Tensor, rounds: int, hc_eps: float, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """A group of work items a product, then one a token."""
    x, base, scales = (contiguous(device, t) for t in (streams, base, scales))
    tokens, s, hidden = x.shape
    made = empty(device, (tokens, hidden)), empty(device, (tokens, s)), empty(device, (tokens, s, s))
    device.launch(HYPER_IN, [x, _mixes(device, x, fn, eps), base, scales, *made], [fn.shape[0], s, hidden, hc_eps, rounds], tokens)
    return made


@runs(ops.hyper_head)
def hyper_head(device: Device, streams: Tensor, fn: Tensor, base: Tensor, scales: Tensor, hc_eps: float, eps: float) -> Tensor:
    """As `hyper_in`."""
    x, base, scales = (contiguous(device, t) for t in (streams, base, scales))
    tokens, s, hidden = x.shape
    h = empty(device, (tokens, hidden))
    device.launch(HYPER_HEAD, [x, _mixes(device, x, fn, eps), base, scales, h], [fn.shape[0], s, hidden, hc_eps], tokens)
    return h


@runs(ops.hyper_out)
def hyper_out(device: Device, streams: Tensor, out: Tensor, post: Tensor, comb: Tensor) -> Tensor:
    """A work item a value."""
    y = empty(device, streams.shape)
    tensors = [contiguous(device, t) for t in (streams, out, post, comb)]
    device.each(HYPER_OUT, [*tensors, y], [*streams.shape[1:]], y.size)
    return y


MIX_STREAMS = kernel(
    "mix_streams",
    buffers(reads="x weights", writes="y"),
    "total streams sums hidden",
    """
    if (INDEX < total) {
        uint i = INDEX % hidden, row = INDEX / hidden, t = row / sums;
        float sum = 0.0f;
        for (uint k = 0u; k < streams; k++) sum = FMA(LD_weights(row * streams + k), LD_x((t * streams + k) * hidden + i), sum);
        ST_y(INDEX, sum);
    }
""",
)


@runs(ops.mix_streams)
def mix_streams(device: Device, streams: Tensor, weights: Tensor) -> Tensor:
    """A work item a value."""
    (tokens, s, hidden), sums = streams.shape, weights.shape[1]
    y = empty(device, (tokens, sums, hidden))
    device.each(MIX_STREAMS, [contiguous(device, streams), contiguous(device, weights), y], [s, sums, hidden], y.size)
    return y


MATCH_LEVEL = kernel(
    "match_level",
    buffers(reads="x like", writes="y"),
    "n streams least:f32",
    """
    uint from = GROUP * n, model = GROUP / streams * n;
    float own = 0.0f, level = 0.0f;
    for (uint i = LANE; i < n; i += WG) {
        own = FMA(LD_x(from + i), LD_x(from + i), own);
        level = FMA(LD_like(model + i), LD_like(model + i), level);
    }
    own = GROUP_SUM(own) / F32(n);
    level = GROUP_SUM(level) / F32(n);
    float factor = sqrt(level) / sqrt(own < least ? least : own);
    for (uint i = LANE; i < n; i += WG) ST_y(from + i, LD_x(from + i) * factor);
""",
    group=256,
)


@runs(ops.match_level)
def match_level(device: Device, streams: Tensor, like: Tensor, floor: float) -> Tensor:
    """A group of work items a stream of a token."""
    (tokens, s, hidden), y = streams.shape, empty(device, streams.shape)
    tensors = [contiguous(device, streams), contiguous(device, like), y]
    device.launch(MATCH_LEVEL, tensors, [hidden, s, floor], tokens * s if hidden else 0)
    return y
