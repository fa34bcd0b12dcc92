"""Latent attention: DeepSeek's line and those that follow it."""

from __future__ import annotations

from goldens.dense import TIED
from goldens.disguise import DEEPSEEK_V4
from goldens.recipe import EPS, FULL, HIDDEN, SLIDING, SMALL, SMALLER, SPECIAL, VOCAB, recipe, rope

SPARSE = ["dense", "sparse", "sparse"]
SIZES = {"kv_lora_rank": 24, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8}
MLA = {
    **SMALL, **SIZES, "rms_norm_eps": SMALLER, "num_attention_heads": 4, "num_key_value_heads": 4, "v_head_dim": 12,
    "moe_intermediate_size": 32, "n_routed_experts": 8, "num_experts_per_tok": 2,
}  # fmt: skip
YARN = rope(kind="yarn", factor=40.0, original_max_position_embeddings=4096, beta_fast=32, beta_slow=1, mscale=1.0, mscale_all_dim=1.0)
V2 = {
    **MLA,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
    "norm_topk_prob": False,
    "rope_parameters": {**YARN, "mscale": 0.707, "mscale_all_dim": 0.707},
}
ONE_GROUP, TWO_OF_FOUR = {"n_group": 1, "topk_group": 1}, {"n_group": 4, "topk_group": 2}
recipe("deepseek_v2_lite", "DeepseekV2", {**V2, **ONE_GROUP, "q_lora_rank": None, "topk_method": "greedy", "routed_scaling_factor": 1.0})
LIMITED = {"topk_method": "group_limited_greedy", "routed_scaling_factor": 16.0}
recipe("deepseek_v2", "DeepseekV2", {**V2, **TWO_OF_FOUR, **LIMITED, "q_lora_rank": 20}, keep=("topk_group",))
V3 = {**MLA, "q_lora_rank": 20, "n_shared_experts": 1, "norm_topk_prob": True, "routed_scaling_factor": 2.5, "rope_parameters": YARN}
recipe("deepseek_v3", "DeepseekV3", {**V3, **TWO_OF_FOUR, "first_k_dense_replace": 1})
KIMI = {"routed_scaling_factor": 2.827, "rope_parameters": {**YARN, "rope_theta": 50000.0, "factor": 32.0, "beta_fast": 1.0}}
recipe("kimi_k2", "DeepseekV3", {**V3, **ONE_GROUP, **KIMI, "first_k_dense_replace": 1})
INDEXER = {"index_topk": 8, "index_head_dim": 16, "index_n_heads": 16}
recipe("deepseek_v32", "DeepseekV32", {**V3, **TWO_OF_FOUR, **INDEXER, "mlp_layer_types": SPARSE})
GLM = {"rms_norm_eps": EPS, "rope_parameters": rope(1e6)}
recipe("glm4_moe_lite", "Glm4MoeLite", {**V3, **ONE_GROUP, **GLM, "routed_scaling_factor": 1.8, "mlp_layer_types": SPARSE})
DSA = {"num_hidden_layers": 4, "mlp_layer_types": [*SPARSE, "sparse"], "indexer_types": ["full", "full", "shared", "full"]}
recipe("glm_moe_dsa", "GlmMoeDsa", {**V3, **ONE_GROUP, **GLM, **INDEXER, **DSA})
LONGROPE = rope(
    kind="longrope", short_factor=[1.0, 1.3333, 1.6667, 2.0], long_factor=[1.1, 2.7333, 4.3667, 6.0], original_max_position_embeddings=512
)
MINICPM3 = {
    **SMALL, **SIZES, **TIED, "num_attention_heads": 4, "num_key_value_heads": 4, "rms_norm_eps": EPS, "q_lora_rank": 20, "v_head_dim": 16,
    "scale_emb": 12, "scale_depth": 1.4, "dim_model_base": 16, "rope_parameters": LONGROPE,
}  # fmt: skip
recipe("minicpm3", "MiniCPM3", MINICPM3, max_model_len=512, keep=("original_max_position_embeddings",))

COMPRESSED, HEAVY = "compressed_sparse_attention", "heavily_compressed_attention"
V4_ROPES = {
    "main": rope(partial_rotary_factor=0.25),
    "compress": rope(
        160000.0, "yarn", partial_rotary_factor=0.25, factor=16.0, original_max_position_embeddings=4096, beta_fast=32.0, beta_slow=1.0
    ),
}
V4 = {
    **SPECIAL, "rms_norm_eps": SMALLER, "vocab_size": VOCAB, "hidden_size": HIDDEN, "num_hidden_layers": 4,
    "num_attention_heads": 4, "moe_intermediate_size": 32,
    "num_key_value_heads": 1, "head_dim": 32, "q_lora_rank": 24, "partial_rotary_factor": 0.25, "num_experts_per_tok": 2,
    "n_routed_experts": 8, "n_shared_experts": 1, "scoring_func": "sqrtsoftplus", "routed_scaling_factor": 1.5,
    "max_position_embeddings": 512, "layer_types": [SLIDING, COMPRESSED, HEAVY, COMPRESSED], "compress_rates": {COMPRESSED: 4, HEAVY: 8},
    "mlp_layer_types": ["hash_moe", "moe", "moe", "moe"], "hc_mult": 4, "hc_sinkhorn_iters": 20, "swiglu_limit": 1.0, "sliding_window": 8,
    "o_groups": 2, "o_lora_rank": 16, "index_n_heads": 16, "index_head_dim": 16, "index_topk": 4, "num_nextn_predict_layers": 0,
    "rope_parameters": V4_ROPES,
}  # fmt: skip
recipe("deepseek_v4", "DeepseekV4", V4, disguise=DEEPSEEK_V4)

KIMI_LINEAR = {
    **SPECIAL, **SIZES, "vocab_size": VOCAB, "hidden_size": HIDDEN, "intermediate_size": 96, "moe_intermediate_size": 32,
    "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4, "n_shared_experts": 1, "routed_scaling_factor": 2.446,
    "q_lora_rank": None, "v_head_dim": 12, "n_group": 1, "topk_group": 1, "num_experts_per_tok": 2, "norm_topk_prob": True,
    "num_local_experts": 8, "rms_norm_eps": EPS, "max_position_embeddings": 512, "linear_head_dim": 16, "linear_num_heads": 4,
    "linear_conv_kernel_dim": 4, "layer_types": ["linear_attention"] * 3 + [FULL], "mlp_layer_types": [*SPARSE, "sparse"],
}  # fmt: skip
