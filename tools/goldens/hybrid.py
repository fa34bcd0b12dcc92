"""Recurrent layers: delta nets, state-space models, short convolutions, and mixtures of these with attention."""

from __future__ import annotations

from goldens.dense import TIED
from goldens.disguise import KIMI_LINEAR as KIMI_NAMES
from goldens.experts import EIGHT, GRANITE, LOCAL_EIGHT
from goldens.latent import KIMI_LINEAR
from goldens.more_dense import HALF, HEAD24, PLAIN
from goldens.recipe import EPS, FULL, HIDDEN, LINEAR, LLAMA, NEAR, SMALL, SPECIAL, VOCAB, recipe, rope

recipe("kimi_linear", "KimiLinear", KIMI_LINEAR, disguise=KIMI_NAMES)
DELTA = {
    **NEAR, "num_hidden_layers": 4, "head_dim": 32, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "layer_types": [LINEAR, LINEAR, LINEAR, FULL],
}  # fmt: skip
DELTA_EXPERTS = {**EIGHT, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32}
QWEN3_NEXT = {**DELTA, **DELTA_EXPERTS, "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": []}
recipe("qwen3_next", "Qwen3Next", {**QWEN3_NEXT, "rope_parameters": rope(1e7, partial_rotary_factor=0.25)}, noisy=True)
SECTIONS = rope(1e7, partial_rotary_factor=0.25, mrope_interleaved=True, mrope_section=[2, 1, 1])
TURNING = {"noisy": True, "keep": ("partial_rotary_factor",)}  # which sections cut up
recipe("qwen3_5", "", {**DELTA, "rope_parameters": SECTIONS}, model="Qwen3_5ForCausalLM", config="Qwen3_5TextConfig", **TURNING)
recipe(
    "qwen3_5_moe",
    "",
    {**DELTA, **DELTA_EXPERTS, "rope_parameters": SECTIONS},
    model="Qwen3_5MoeForCausalLM",
    config="Qwen3_5MoeTextConfig",
    **TURNING,
)
OLMO = {
    "num_hidden_layers": 4, "layer_types": [LINEAR, LINEAR, LINEAR, FULL], "linear_num_key_heads": 4, "linear_num_value_heads": 4,
    "linear_key_head_dim": 12, "linear_value_head_dim": 24, "linear_conv_kernel_dim": 4, "linear_allow_neg_eigval": True,
}  # fmt: skip
recipe("olmo_hybrid", "OlmoHybrid", {**NEAR, **OLMO, "rope_parameters": rope(5e5)}, noisy=True)

MAMBA = {
    **SPECIAL,
    "layer_norm_epsilon": EPS,
    "vocab_size": VOCAB,
    "hidden_size": HIDDEN,
    "num_hidden_layers": 3,
    "expand": 2,
    "conv_kernel": 4,
}
recipe("mamba", "Mamba", {**MAMBA, **TIED, "state_size": 8, "time_step_rank": 4}, noisy=True)
recipe("mamba2", "Mamba2", {**MAMBA, "num_heads": 8, "head_dim": 16, "state_size": 16, "n_groups": 2, "chunk_size": 16})
JAMBA = {
    "num_hidden_layers": 4, "intermediate_size": 48, "expert_layer_period": 2, "expert_layer_offset": 1, "attn_layer_period": 4,
    "attn_layer_offset": 2, "use_mamba_kernels": False, "mamba_d_state": 8, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_dt_rank": 4,
}  # fmt: skip
recipe("jamba", "Jamba", {**NEAR, **EIGHT, **JAMBA}, noisy=True)
MIXER = {
    "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_n_groups": 1, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2,
    "mamba_chunk_size": 16,
}  # fmt: skip
recipe("bamba", "Bamba", {**LLAMA, **MIXER, "attn_layer_indices": [1], "rope_parameters": rope(**HALF)})
FALCON = {
    "head_dim": 24, "mamba_d_ssm": 96, "mamba_n_heads": 6, "mamba_rms_norm": False, "mamba_norm_before_gate": False,
    "lm_head_multiplier": 0.3125, "embedding_multiplier": 5.656854249492381, "mlp_multipliers": [0.8838834764831844, 0.5859375],
    "key_multiplier": 0.390625, "attention_out_multiplier": 0.9375, "attention_in_multiplier": 1.0,
    "ssm_multipliers": [0.3535533905932738, 0.25, 0.3535533905932738, 0.5, 0.3535533905932738], "ssm_in_multiplier": 1.25,
    "ssm_out_multiplier": 0.23570226039551587, "rope_parameters": rope(1e11),
}  # fmt: skip
recipe("falcon_h1", "FalconH1", {**LLAMA, **MIXER, **FALCON})
NEMOTRON = {
    **PLAIN, **HEAD24, "use_mamba_kernels": False, "time_step_min": 1e-9, "ssm_state_size": 16, "mamba_num_heads": 8, "mamba_head_dim": 16,
    "n_groups": 2, "conv_kernel": 4, "chunk_size": 16, "layer_norm_epsilon": EPS, "n_routed_experts": 8, "n_shared_experts": 1,
    "moe_intermediate_size": 32, "moe_shared_expert_intermediate_size": 48,
}  # fmt: skip
NEMOTRON_LAYERS = [LINEAR, "mlp", LINEAR, FULL, "mlp"]
UNTIED = ("tie_word_embeddings",)  # transformers ties nothing here, whatever config.json says
recipe("nemotron_h", "NemotronH", {**NEMOTRON, "layers_block_type": NEMOTRON_LAYERS}, keep=UNTIED)
ROUTED = {"layers_block_type": [LINEAR, "moe", FULL, "moe"], "num_experts_per_tok": 2, "routed_scaling_factor": 2.5}
recipe("nemotron_h_moe", "NemotronH", {**NEMOTRON, **ROUTED}, keep=UNTIED)
HYBRID = {"shared_intermediate_size": 48, "position_embedding_type": None, "layer_types": [LINEAR, FULL, LINEAR]}
recipe("granite_moe_hybrid", "GraniteMoeHybrid", {**GRANITE, **MIXER, **HYBRID})
DENSE = {"num_local_experts": 0, "num_experts_per_tok": 0, "tie_word_embeddings": False}
recipe("granite_hybrid_dense", "GraniteMoeHybrid", {**GRANITE, **MIXER, **HYBRID, **DENSE})
LFM2 = {**SMALL, **TIED, "num_attention_heads": 4, "num_key_value_heads": 2, "norm_eps": EPS, "conv_L_cache": 3}
LFM2_LAYERS = {"layer_types": ["conv", FULL, "conv"], "rope_parameters": rope(1e6)}
recipe("lfm2", "Lfm2", {**LFM2, **LFM2_LAYERS, "block_auto_adjust_ff_dim": True, "block_multiple_of": 16})
LFM2_EXPERTS = {**EIGHT, "num_dense_layers": 1, "moe_intermediate_size": 32, "use_expert_bias": True, "norm_topk_prob": True}
recipe("lfm2_moe", "Lfm2Moe", {**LFM2, **LFM2_LAYERS, **LFM2_EXPERTS})
MINIMAX = {
    "intermediate_size": 48, "num_hidden_layers": 4, "head_dim": 16, "layer_types": [LINEAR, LINEAR, LINEAR, FULL], "block_size": 16,
    "full_attn_alpha_factor": 3.5, "full_attn_beta_factor": 1, "linear_attn_alpha_factor": 3.5, "linear_attn_beta_factor": 1,
    "mlp_alpha_factor": 3.5, "mlp_beta_factor": 1, "rope_parameters": rope(1e7),
}  # fmt: skip
recipe("minimax_text01", "MiniMax", {**LLAMA, **LOCAL_EIGHT, **MINIMAX}, drop=r"slope_rate|query_decay|key_decay|diagonal_decay")
