"""Mixtures of experts with plain attention."""

from __future__ import annotations

from goldens.dense import TIED
from goldens.more_dense import ALPHA, HALF, HEAD24, PLAIN
from goldens.recipe import EPS, FULL, LLAMA, NEAR, SLIDING, recipe, rope

EIGHT = {"num_experts": 8, "num_experts_per_tok": 2}
LOCAL_EIGHT = {"num_local_experts": 8, "num_experts_per_tok": 2}
ROUTED_EIGHT = {"n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1, "moe_intermediate_size": 32}
ONE_GROUP = {"n_group": 1, "topk_group": 1, "norm_topk_prob": True}

recipe("mixtral", "Mixtral", {**LLAMA, **LOCAL_EIGHT, "intermediate_size": 48, "sliding_window": None, "rope_parameters": rope(1e6)})
SHARED = {"moe_intermediate_size": 32, "shared_expert_intermediate_size": 48, "norm_topk_prob": False, "mlp_only_layers": [0]}
recipe("qwen2_moe", "Qwen2Moe", {**NEAR, **EIGHT, **SHARED, "rope_parameters": rope(1e6)})
QWEN3 = {"moe_intermediate_size": 32, "norm_topk_prob": True, "mlp_only_layers": []}
recipe("qwen3_moe", "Qwen3Moe", {**NEAR, **HEAD24, **LOCAL_EIGHT, **QWEN3, "rope_parameters": rope(1e7)})
recipe("olmoe", "Olmoe", {**LLAMA, **EIGHT, "intermediate_size": 32, "norm_topk_prob": False, "rope_parameters": rope()})
MULTIPLIERS = {"embedding_multiplier": 12.0, "logits_scaling": 6.0, "residual_multiplier": 0.22, "attention_multiplier": 0.1}
GRANITE = {**LLAMA, **TIED, **LOCAL_EIGHT, **MULTIPLIERS, "intermediate_size": 32}
recipe("granite_moe", "GraniteMoe", {**GRANITE, "rope_parameters": rope()})
recipe("granite_moe_shared", "GraniteMoeShared", {**GRANITE, "shared_intermediate_size": 48, "rope_parameters": rope()})
OSS_YARN = {"factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False, "original_max_position_embeddings": 1024}
OSS = {
    "intermediate_size": 40,
    "num_hidden_layers": 4,
    "sliding_window": 8,
    "layer_types": [SLIDING, FULL, SLIDING, FULL],
    "swiglu_limit": 1.5,
}
recipe("gpt_oss", "GptOss", {**LLAMA, **HEAD24, **LOCAL_EIGHT, **OSS, "rope_parameters": rope(150000.0, "yarn", **OSS_YARN)})
recipe("minimax_m2", "MiniMaxM2", {**NEAR, **HEAD24, **LOCAL_EIGHT, "intermediate_size": 48, "rope_parameters": rope(5e6, **HALF)})
ERNIE = {
    "moe_intermediate_size": 32, "moe_num_experts": 8, "moe_k": 2, "moe_num_shared_experts": 2, "moe_layer_start_index": 1,
    "moe_layer_end_index": 2, "moe_layer_interval": 1,
}  # fmt: skip
recipe("ernie4_5_moe", "Ernie4_5_Moe", {**LLAMA, **TIED, **ERNIE, "rope_parameters": rope(5e5)})
HUNYUAN = {"intermediate_size": 48, "num_experts": 8, "moe_topk": 2}
recipe("hunyuan_moe", "HunYuanMoEV1", {**LLAMA, **HEAD24, **TIED, **HUNYUAN, "rope_parameters": ALPHA})
LLAMA4 = {
    "num_hidden_layers": 4, "intermediate_size": 32, "head_dim": 16, "intermediate_size_mlp": 96, "num_experts_per_tok": 1,
    "num_local_experts": 8, "interleave_moe_layer_step": 2, "no_rope_layer_interval": 4, "attention_chunk_size": 16,
    "attn_temperature_tuning": True, "floor_scale": 16, "use_qk_norm": True,
}  # fmt: skip
recipe("llama4", "", {**LLAMA, **LLAMA4, "rope_parameters": rope(5e5)}, model="Llama4ForCausalLM", config="Llama4TextConfig")
GLM = {**PLAIN, **HEAD24, **ROUTED_EIGHT, **ONE_GROUP, "rms_norm_eps": EPS, "attention_bias": True, "use_qk_norm": True}
recipe("glm4_moe", "Glm4Moe", {**GLM, "routed_scaling_factor": 2.5, "first_k_dense_replace": 1, "rope_parameters": rope(1e6, **HALF)})
DOTS = {"head_dim": 16, "first_k_dense_replace": 1, "routed_scaling_factor": 2.5, "sliding_window": None}
recipe("dots1", "Dots1", {**LLAMA, **ROUTED_EIGHT, **ONE_GROUP, **DOTS, "rope_parameters": rope(1e7)})
PHIMOE = {"intermediate_size": 48, "attention_bias": True, "lm_head_bias": True, "router_jitter_noise": 0.01, "sliding_window": None}
recipe("phimoe", "Phimoe", {**LLAMA, **LOCAL_EIGHT, **PHIMOE, "rope_parameters": rope()})
LAGUNA = {
    "num_hidden_layers": 4, "gating": "per-head", "num_attention_heads_per_layer": [4, 6, 6, 6], "sliding_window": 8,
    "layer_types": [FULL, SLIDING, SLIDING, SLIDING], "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
    "moe_intermediate_size": 32, "shared_expert_intermediate_size": 48, "moe_routed_scaling_factor": 2.5, "rms_norm_eps": EPS,
}  # fmt: skip
LAGUNA_YARN = {
    "factor": 32.0,
    "original_max_position_embeddings": 4096,
    "beta_fast": 64.0,
    "beta_slow": 1.0,
    "attention_factor": 1.0,
    **HALF,
}
LAGUNA_ROPES = {FULL: rope(5e5, "yarn", **LAGUNA_YARN), SLIDING: rope(partial_rotary_factor=1.0)}
recipe("laguna", "Laguna", {**PLAIN, **HEAD24, **EIGHT, **LAGUNA, "rope_parameters": LAGUNA_ROPES})
