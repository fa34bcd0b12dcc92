"""Which experts a token goes to: a group of work items a token, which counts for each expert how many are better."""

from __future__ import annotations

import numpy as np

from vtcore import ops
from vtcore.providers.gpu.device import Device
from vtcore.providers.gpu.table import runs
from vtcore.providers.gpu.views import contiguous, integers, rows
from vtcore.providers.kernels import maths
from vtcore.providers.kernels.declare import buffers, kernel
from vtcore.tensor import Tensor, empty

MOST = 1024  # experts
SCORES = {"softmax": 0, "sigmoid": 1, "sqrtsoftplus": 2}

CODE = """
    uint from = GROUP * row, to = GROUP * k;
    float top = AS_F32(0xff800000u), total = 0.0f;
    for (uint e = LANE; e < experts; e += WG) top = max(top, LD_logits(from + e));
    top = GROUP_MAX(top);
    if (top < -3e38f) top = 0.0f;
    for (uint e = LANE; e < experts; e += WG) {
        float x = LD_logits(from + e), score = 0.0f;
        if (kind == 0u) score = fn_exp(x - top);
        else if (kind == 1u) score = fn_sigmoid(x);
        else score = sqrt(fn_softplus(x));
        total += score;
        scores[e] = score;
    }
    total = GROUP_SUM(total);
    for (uint e = LANE; e < experts; e += WG) {
        if (kind == 0u && total != 0.0f) scores[e] = scores[e] / total;
        float key = LD_logits(from + e);
        if (biased > 0u) key = scores[e] + LD_bias(e);
        keys[e] = fn_nan(key) ? AS_F32(0xff800000u) : key;
    }
    BARRIER();
    uint size = experts / groups, ranked = groups > 1u && given == 0u ? groups : 0u;
    for (uint g = LANE; g < ranked; g += WG) {
        float best = AS_F32(0xff800000u), second = best;
        for (uint i = 0u; i < size; i++) {
            float key = keys[g * size + i];
            second = max(second, min(best, key));
            best = max(best, key);
        }
        strengths[g] = biased > 0u ? best + second : best;
    }
    BARRIER();
    for (uint g = LANE; g < ranked; g += WG) {
        uint better = 0u;
        float mine = strengths[g];
        for (uint other = 0u; other < groups; other++) {
            if (strengths[other] > mine || (strengths[other] == mine && other < g)) better += 1u;
        }
        for (uint i = 0u; i < size; i++) if (better >= keep) keys[g * size + i] = AS_F32(0xff800000u);
    }
    BARRIER();
    uint counted = given > 0u ? 0u : experts;
    for (uint e = LANE; e < counted; e += WG) {
        uint better = 0u;
        float mine = keys[e];
        for (uint other = 0u; other < experts; other++) {
            if (keys[other] > mine || (keys[other] == mine && other < e)) better += 1u;
        }
        if (better < k) taken[better] = e;
    }
    BARRIER();
    float sum = 0.0f;
    for (uint j = LANE; j < k; j += WG) {
        if (given > 0u) taken[j] = min(U32(max(LD_chosen(to + j), 0)), experts - 1u);
        sum += scores[taken[j]];
    }
    sum = GROUP_SUM(sum);
    for (uint j = LANE; j < k; j += WG) {
        float weight = scores[taken[j]];
        if (renormalise > 0u) weight = weight / (sum + 1e-20f);
        ST_weights(to + j, weight * scale);
        ST_ids(to + j, I32(taken[j]));
    }
"""
ROUTE = kernel(
    "route",
    buffers(reads="logits bias chosen:i32", writes="weights ids:i32"),
    "experts row k kind biased groups keep renormalise given scale:f32",
    CODE,
    helpers=maths.text(CODE),
    shared=(("scores", "f32", f"{MOST}u"), ("keys", "f32", f"{MOST}u"), ("strengths", "f32", f"{MOST}u"), ("taken", "u32", f"{MOST}u")),
    group=128,
)


def _many(device: Device, logits: Tensor, **_: object) -> str | None:
    return None if logits.shape[-1] <= MOST else f"there are {logits.shape[-1]} experts; the kernel compares {MOST}"


@runs(ops.route, declines=_many)
def route(
    device: Device, logits: Tensor, k: int, score: str, bias: Tensor | None, groups: int, keep: int, renormalise: bool, scale: float,
    chosen: Tensor | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """A group of work items a token."""
    seen, tokens = rows(device, logits), logits.shape[0]
    weights, ids = empty(device, (tokens, k)), empty(device, (tokens, k), np.int32)
    tensors = [seen.tensor, seen.tensor if bias is None else contiguous(device, bias), ids if chosen is None else integers(device, chosen)]
    scalars = [
        seen.width,
        seen.stride,
        k,
        SCORES[score],
        int(bias is not None),
        groups,
        keep,
        int(renormalise),
        int(chosen is not None),
        scale,
    ]
    device.launch(ROUTE, [*tensors, weights, ids], scalars, tokens)
    return weights, ids


SPARSE = """
    uint from = GROUP * row;
    float first = -1.0f;
    for (uint j = 0u; j < 2u; j++) {
        float best = AS_F32(0xff800000u), place = -F32(experts), total = 0.0f;
        for (uint e = LANE; e < experts; e += WG) if (F32(e) != first) best = max(best, vt_number(LD_logits(from + e)));
        best = GROUP_MAX(best);
        for (uint e = LANE; e < experts; e += WG) {
            if (F32(e) != first && vt_number(LD_logits(from + e)) == best) place = max(place, -F32(e));
        }
        place = min(-GROUP_MAX(place), F32(experts - 1u));
        for (uint e = LANE; e < experts; e += WG) {
            float x = LD_logits(from + e);
            if (F32(e) != first && !((best - x) / max(ABS(x), best) > twice)) total += fn_exp(x - best);
        }
        total = GROUP_SUM(total);
        if (LANE == 0u) {
            ST_weights(GROUP * 2u + j, 1.0f / total);
            ST_ids(GROUP * 2u + j, I32(place));
        }
        first = place;
    }
"""
NUMBER = "FN float vt_number(float v) { return fn_nan(v) ? AS_F32(0xff800000u) : v; }"
ROUTE_SPARSE = kernel(
    "route_sparse",
    buffers(reads="logits", writes="weights ids:i32"),
    "experts row twice:f32",
    SPARSE,
    helpers=maths.text(SPARSE + NUMBER) + NUMBER,
)


@runs(ops.route_sparse)
def route_sparse(device: Device, logits: Tensor, jitter: float) -> tuple[Tensor, Tensor]:
    """A group of work items a token."""
    seen, tokens = rows(device, logits), logits.shape[0]
    weights, ids = empty(device, (tokens, 2)), empty(device, (tokens, 2), np.int32)
    device.launch(ROUTE_SPARSE, [seen.tensor, weights, ids], [seen.width, seen.stride, 2 * jitter], tokens)
    return weights, ids
