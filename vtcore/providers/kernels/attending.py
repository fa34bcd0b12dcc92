"""What kernels of attention share: a group of work items for each head of a token, over WG keys at a time.

A work item makes the score of one key, then, with the weights of all of them in shared memory, sums the values of its channels. The
softmax goes along with its largest score so far (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018). What a token
sees is cut into runs of WG keys from its own first one: so its bits are the same in any batch and chunk.

No loop is entered by some work items of a group only: PoCL 3.1 has been seen to let all of them into such a one. Those without a key
read that at 0, and forget it."""

from __future__ import annotations

WIDEST = 1024  # channels of a head
FLOATS = "f32|f16|bf16|e4m3|e5m2"
SHARED = (
    ("query", "f32", "WIDEST"),
    ("mixed", "f32", "WIDEST"),
    ("weights", "f32", "WG"),
    ("places", "u32", "WG"),
    ("sources", "u32", "WG"),
)
CONSTANTS = {"WIDEST": WIDEST}
# A work item's token t and head h; the token's request r is the first that ends behind it, and `owned` says whether there is one.
REQUEST = """
    uint t = GROUP / heads, h = GROUP % heads, r = 0u, behind = requests;
    while (r < behind) {
        uint middle = (r + behind) / 2u;
        if (U32(LD_starts(middle + 1u)) <= t) r = middle + 1u;
        else behind = middle;
    }
    bool owned = false;
    if (r < requests) owned = U32(LD_starts(r)) <= t;
"""
# Over `number` keys. PLACE says where the one of number `one` lies: its key at k, its value at v, its source (0: not seen, and k is 0).
LOOP = """
    for (uint i = LANE; i < width; i += WG) query[i] = LD_q(t * row + h * width + i);
    for (uint i = LANE; i < WIDEST; i += WG) mixed[i] = 0.0f;
    float top = -3.0e38f, sum = 0.0f;
    SINK
    for (uint from = 0u; from < number; from += WG) {
        uint one = from + LANE, source = one < number ? 1u : 0u, k = 0u, v = 0u, entry = 0u;
        PLACE
        places[LANE] = v;
        sources[LANE] = source;
        BARRIER();
        uint i = 0u;
        float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
        for (; i + 3u < width; i += 4u) {
            s0 = FMA(query[i], KEY(k), s0);
            s1 = FMA(query[i + 1u], KEY(k + k_channel), s1);
            s2 = FMA(query[i + 2u], KEY(k + 2u * k_channel), s2);
            s3 = FMA(query[i + 3u], KEY(k + 3u * k_channel), s3);
            k += 4u * k_channel;
        }
        for (; i < width; i++) { s0 = FMA(query[i], KEY(k), s0); k += k_channel; }
        float score = ((s0 + s1) + (s2 + s3)) * scale;
        BEND
        if (source == 0u) score = AS_F32(0xff800000u);
        float highest = max(top, GROUP_MAX(score)), keep = exp(top - highest), weight = source > 0u ? exp(score - highest) : 0.0f;
        sum = sum * keep + GROUP_SUM(weight);
        top = highest;
        WEIGH
        weights[LANE] = weight;
        BARRIER();
        uint count = min(WG, number - from);
        for (uint run = 0u; run < value_width; run += WG) {
            uint c = min(run + LANE, value_width - 1u);
            float m = mixed[run + LANE] * keep;
            for (uint e = 0u; e < count; e++) if (sources[e] > 0u) m = FMA(weights[e], VALUE, m);
            mixed[run + LANE] = m;
        }
        BARRIER();
    }
    for (uint c = LANE; c < value_width; c += WG) ST_y(GROUP * value_width + c, sum == 0.0f ? 0.0f : mixed[c] / sum);
"""
SINK = "if (sinking > 0u) { top = max(top, LD_sinks(h)); sum = exp(LD_sinks(h) - top); }"


def loop(*, place: str, key: str, value: str, sink: str = "", bend: str = "", weigh: str = "") -> str:
    """The loop with its parts. `key` and `value` read one number, at AT; bend changes `score`, weigh `weight`."""
    text = LOOP.replace("KEY(", "\0(").replace("VALUE", value)
    while "\0(" in text:
        before, _, after = text.partition("\0(")
        inside, _, after = after.partition(")")
        text = before + key.replace("AT", inside) + after
    for name, part in (("PLACE", place), ("SINK", sink), ("BEND", bend), ("WEIGH", weigh)):
        text = text.replace(f"{name}\n", f"{part}\n")
    return text


def too_wide(width: int) -> str | None:
    """Why a head of so many channels isn't taken, or None."""
    return None if width <= WIDEST else f"a head has {width} channels; the kernel has room for {WIDEST}"
