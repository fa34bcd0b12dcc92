"""Kimi K3 in plain NumPy, token by token and head by head in float64, from its description; and a tiny checkpoint of it.

Nothing of vtcore is used: keys and values are expanded, states are walked in Python, all tokens are computed anew each time."""

from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
ROOT = "language_model.model."
HEADS, NOPE, ROPE, VALUE, LATENT, LOW = 4, 8, 4, 8, 12, 20  # of latent attention
DELTA_HEADS, DELTA, TAPS = 3, 8, 4  # of delta nets
HIDDEN, INNER, EXPERT, NARROW, EXPERTS, VOCAB = 32, 48, 16, 24, 6, 300
LINEAR = {
    "kda_layers": [1, 2, 4], "full_attn_layers": [3, 5], "num_heads": DELTA_HEADS, "head_dim": DELTA, "short_conv_kernel_size": TAPS,
    "gate_lower_bound": -5.0, "use_full_rank_gate": True,
}  # fmt: skip
TEXT: dict[str, Any] = {
    "model_type": "kimi_linear", "hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": 5, "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS, "vocab_size": VOCAB, "rms_norm_eps": 1e-2, "hidden_act": "situ", "activation_situ_beta": 4.0,
    "activation_situ_linear_beta": 25.0, "linear_attn_config": LINEAR, "q_lora_rank": LOW, "kv_lora_rank": LATENT,
    "qk_nope_head_dim": NOPE, "qk_rope_head_dim": ROPE, "v_head_dim": VALUE, "mla_use_nope": True, "mla_use_output_gate": True,
    "num_experts": EXPERTS, "num_experts_per_token": 2, "num_shared_experts": 2, "moe_intermediate_size": EXPERT,
    "first_k_dense_replace": 1, "moe_layer_freq": 1, "moe_renormalize": True, "moe_router_activation_func": "sigmoid",
    "num_expert_group": 1, "topk_group": 1, "routed_scaling_factor": 1.7, "routed_expert_hidden_size": NARROW, "latent_moe_use_norm": True,
    "attn_res_block_size": 2, "topk_method": "noaux_tc", "max_position_embeddings": 256, "tie_word_embeddings": False,
}  # fmt: skip
CONFIG: dict[str, Any] = {"architectures": ["KimiK3ForConditionalGeneration"], "model_type": "kimi_k3", "text_config": TEXT}


def checkpoint(text: dict[str, Any] = TEXT, seed: int = 1) -> Arrays:
    """Every tensor of the text part, as the hub names it; and two of the tower."""
    rng, out = np.random.default_rng(seed), {}

    def draw(name: str, *shape: int, magnitude: float | None = None, offset: float = 0.0) -> None:
        values = rng.standard_normal(shape) * (shape[-1] ** -0.5 if magnitude is None else magnitude) + offset
        out[name] = values.astype(np.float32)

    def norm(name: str, width: int) -> None:
        draw(f"{name}.weight", width, magnitude=0.2, offset=1.0)

    def look_back(name: str) -> None:
        norm(f"{name}_norm", HIDDEN)
        draw(f"{name}_proj.weight", 1, HIDDEN, magnitude=0.2)

    def matrices(base: str, **shapes: tuple[int, int]) -> None:
        for name, shape in shapes.items():
            draw(f"{base}{name}.weight", *shape)

    draw(f"{ROOT}embed_tokens.weight", VOCAB, HIDDEN, magnitude=1.0)
    draw("language_model.lm_head.weight", VOCAB, HIDDEN, magnitude=0.04)  # logits up to one
    norm(f"{ROOT}norm", HIDDEN)
    look_back(f"{ROOT}output_attn_res")
    for i in range(text["num_hidden_layers"]):
        base = f"{ROOT}layers.{i}."
        for name in ("input_layernorm", "post_attention_layernorm"):
            norm(base + name, HIDDEN)
        for name in ("self_attention_res", "mlp_res"):
            look_back(base + name)
        own, wide = base + "self_attn.", DELTA_HEADS * DELTA
        if i + 1 in LINEAR["kda_layers"]:
            matrices(own, **dict.fromkeys(("q_proj", "k_proj", "v_proj"), (wide, HIDDEN)), f_a_proj=(DELTA, HIDDEN), f_b_proj=(wide, DELTA))
            matrices(own, b_proj=(DELTA_HEADS, HIDDEN), g_proj=(wide, HIDDEN), o_proj=(HIDDEN, wide))
            for n in "qkv":
                draw(f"{own}{n}_conv1d.weight", wide, 1, TAPS, magnitude=1.0)
            draw(f"{own}A_log", DELTA_HEADS + 2, magnitude=0.5)  # two more than there are heads, as the hub pads it
            draw(f"{own}dt_bias", wide, magnitude=1.0)
            norm(f"{own}o_norm", DELTA)
        else:
            matrices(own, q_a_proj=(LOW, HIDDEN), q_b_proj=(HEADS * (NOPE + ROPE), LOW), kv_a_proj_with_mqa=(LATENT + ROPE, HIDDEN))
            matrices(own, kv_b_proj=(HEADS * (NOPE + VALUE), LATENT), o_proj=(HIDDEN, HEADS * VALUE), g_proj=(HEADS * VALUE, HIDDEN))
            norm(f"{own}q_a_layernorm", LOW)
            norm(f"{own}kv_a_layernorm", LATENT)
        if i < text["first_k_dense_replace"]:
            matrices(base + "mlp.", gate_proj=(INNER, HIDDEN), up_proj=(INNER, HIDDEN), down_proj=(HIDDEN, INNER))
            continue
        moe = base + "block_sparse_moe."
        matrices(moe, gate=(EXPERTS, HIDDEN), routed_expert_down_proj=(NARROW, HIDDEN), routed_expert_up_proj=(HIDDEN, NARROW))
        draw(f"{moe}gate.e_score_correction_bias", EXPERTS, magnitude=0.2)
        norm(f"{moe}routed_expert_norm", NARROW)
        twice = 2 * EXPERT
        matrices(f"{moe}shared_experts.", gate_proj=(twice, HIDDEN), up_proj=(twice, HIDDEN), down_proj=(HIDDEN, twice))
        for e in range(EXPERTS):
            matrices(f"{moe}experts.{e}.", w1=(EXPERT, NARROW), w3=(EXPERT, NARROW), w2=(NARROW, EXPERT))
    draw("vision_tower.patch_embed.proj.weight", 4, 3)
    draw("mm_projector.proj.0.weight", 4, 4)
    return out


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def rms(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + eps) * weight


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class Witness:
    """The whole forward; `logits` of all tokens of one sequence, [T, vocab]."""

    def __init__(self, weights: Arrays, text: dict[str, Any] = TEXT) -> None:
        self.weights = {n: a.astype(np.float64) for n, a in weights.items()}
        self.text, self.eps = text, text["rms_norm_eps"]

    def at(self, name: str) -> np.ndarray:
        return self.weights[name]

    def times(self, x: np.ndarray, name: str) -> np.ndarray:
        return x @ self.at(f"{name}.weight").T

    def normed(self, x: np.ndarray, name: str, eps: float | None = None) -> np.ndarray:
        return rms(x, self.at(f"{name}.weight"), self.eps if eps is None else eps)

    def logits(self, tokens: list[int]) -> np.ndarray:
        blocks, total = [], self.at(f"{ROOT}embed_tokens.weight")[tokens]
        for i in range(self.text["num_hidden_layers"]):
            base = f"{ROOT}layers.{i}."
            seen = self.look_back([*blocks, total], base + "self_attention_res")
            out = self.mixed(self.normed(seen, base + "input_layernorm"), i, base + "self_attn.")
            if i % self.text["attn_res_block_size"] == 0:
                blocks, total = [*blocks, total], out
            else:
                total = total + out
            seen = self.look_back([*blocks, total], base + "mlp_res")
            total = total + self.mlp(self.normed(seen, base + "post_attention_layernorm"), i, base)
        last = self.look_back([*blocks, total], f"{ROOT}output_attn_res")
        return self.times(self.normed(last, f"{ROOT}norm"), "language_model.lm_head")

    def look_back(self, blocks: list[np.ndarray], name: str) -> np.ndarray:
        values = np.stack(blocks, 1)
        shares = softmax(self.times(self.normed(values, name + "_norm"), name + "_proj")[..., 0])
        return (shares[..., None] * values).sum(1)

    def mixed(self, x: np.ndarray, index: int, base: str) -> np.ndarray:
        return self.delta(x, base) if index + 1 in self.text["linear_attn_config"]["kda_layers"] else self.latent(x, base)

    def delta(self, x: np.ndarray, base: str) -> np.ndarray:
        def convolved(name: str) -> np.ndarray:
            rows, taps = self.times(x, f"{base}{name}_proj"), self.at(f"{base}{name}_conv1d.weight")[:, 0]
            padded = np.concatenate([np.zeros((TAPS - 1, rows.shape[1])), rows])
            out = np.stack([(padded[t : t + TAPS] * taps.T).sum(0) for t in range(len(rows))])
            return (out * sigmoid(out)).reshape(-1, DELTA_HEADS, DELTA)

        q, k, v = (convolved(n) for n in "qkv")
        q, k = (a / np.sqrt((a * a).sum(-1, keepdims=True) + 1e-6) for a in (q, k))
        raw = self.times(self.times(x, base + "f_a_proj"), base + "f_b_proj") + self.at(base + "dt_bias")
        speed = np.exp(self.at(base + "A_log")[:DELTA_HEADS])[:, None]
        kept = np.exp(self.text["linear_attn_config"]["gate_lower_bound"] * sigmoid(speed * raw.reshape(-1, DELTA_HEADS, DELTA)))
        beta, state = sigmoid(self.times(x, base + "b_proj")), np.zeros((DELTA_HEADS, DELTA, DELTA))  # of keys by values
        out = np.zeros_like(q)
        for t in range(len(x)):
            for h in range(DELTA_HEADS):
                s = kept[t, h][:, None] * state[h]
                state[h] = s + np.outer(k[t, h], beta[t, h] * (v[t, h] - s.T @ k[t, h]))
                out[t, h] = state[h].T @ q[t, h] * DELTA**-0.5
        gate = sigmoid(self.times(x, base + "g_proj")).reshape(out.shape)
        return self.times((self.normed(out, base + "o_norm") * gate).reshape(len(x), -1), base + "o_proj")

    def latent(self, x: np.ndarray, base: str) -> np.ndarray:
        q = self.times(self.normed(self.times(x, base + "q_a_proj"), base + "q_a_layernorm", 1e-6), base + "q_b_proj")
        q = q.reshape(-1, HEADS, NOPE + ROPE)
        both = self.times(x, base + "kv_a_proj_with_mqa")
        wide = self.times(self.normed(both[:, :LATENT], base + "kv_a_layernorm", 1e-6), base + "kv_b_proj").reshape(-1, HEADS, NOPE + VALUE)
        out = np.zeros((len(x), HEADS, VALUE))
        for h in range(HEADS):
            keys = np.concatenate([wide[:, h, :NOPE], both[:, LATENT:]], 1)
            scores = q[:, h] @ keys.T * (NOPE + ROPE) ** -0.5
            out[:, h] = softmax(np.where(np.tri(len(x), dtype=bool), scores, -np.inf)) @ wide[:, h, NOPE:]
        return self.times(out.reshape(len(x), -1) * sigmoid(self.times(x, base + "g_proj")), base + "o_proj")

    def situ(self, gate: np.ndarray, up: np.ndarray) -> np.ndarray:
        a, b = self.text["activation_situ_beta"], self.text["activation_situ_linear_beta"]
        return a * np.tanh(gate / a) * sigmoid(gate) * b * np.tanh(up / b)

    def gated(self, x: np.ndarray, base: str, names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj")) -> np.ndarray:
        gate, up, down = (base + n for n in names)
        return self.times(self.situ(self.times(x, gate), self.times(x, up)), down)

    def mlp(self, x: np.ndarray, index: int, base: str) -> np.ndarray:
        if index < self.text["first_k_dense_replace"]:
            return self.gated(x, base + "mlp.")
        moe = base + "block_sparse_moe."
        scores, out = sigmoid(self.times(x, moe + "gate")), np.zeros((len(x), NARROW))
        narrow = self.times(x, moe + "routed_expert_down_proj")
        for t, row in enumerate(scores):
            best = np.argsort(-(row + self.at(moe + "gate.e_score_correction_bias")), kind="stable")[: self.text["num_experts_per_token"]]
            weights = row[best] / row[best].sum() * self.text["routed_scaling_factor"]
            for weight, e in zip(weights, best, strict=True):
                out[t] += weight * self.gated(narrow[t], f"{moe}experts.{e}.", ("w1", "w3", "w2"))
        routed = self.times(self.normed(out, moe + "routed_expert_norm"), moe + "routed_expert_up_proj")
        return routed + self.gated(x, moe + "shared_experts.")
