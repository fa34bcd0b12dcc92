"""The other dense decoders."""

from __future__ import annotations

from goldens.dense import GEMMA, TIED, WINDOW
from goldens.disguise import INTERNLM2, MINICPM
from goldens.recipe import EPS, FULL, GROUPED, HIDDEN, LLAMA, NEAR, SLIDING, SMALL, SPECIAL, VOCAB, recipe, rope

HEAD24 = {"head_dim": 24}
LOCAL = {**WINDOW, "num_hidden_layers": 4, "layer_types": [SLIDING, SLIDING, SLIDING, FULL]}
LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
HALF = {"partial_rotary_factor": 0.5}
QUARTER = {"partial_rotary_factor": 0.25}
PLAIN = {**SMALL, **GROUPED}
NO_DROPOUT = {"hidden_dropout": 0.0, "attention_dropout": 0.0}

recipe(
    "internlm2", "Llama", {**LLAMA, "rope_parameters": rope(1e6)}, disguise=INTERNLM2, keep=("num_attention_heads", "num_key_value_heads")
)
MINI = {"embedding_multiplier": 12.0, "logits_scaling": 4.0, "residual_multiplier": 1.4 / 3**0.5, "attention_multiplier": 0.25}
recipe("minicpm", "Granite", {**LLAMA, **TIED, **MINI, "rope_parameters": rope()}, disguise=MINICPM, keep=(*MINI, "num_attention_heads"))
SEED = {"attention_bias": True, "attention_out_bias": False, "attention_dropout": 0.0, "residual_dropout": 0.0}
recipe("seed_oss", "SeedOss", {**NEAR, **HEAD24, **SEED, "rope_parameters": rope(1e7)})
recipe("ernie4_5", "Ernie4_5", {**LLAMA, **HEAD24, **TIED, "rope_parameters": rope(5e5)})
ALPHA = rope(kind="dynamic", alpha=1000.0, factor=1.0, beta_fast=32, beta_slow=1, mscale=1.0, mscale_all_dim=0.0)
recipe("hunyuan", "HunYuanDenseV1", {**LLAMA, **HEAD24, **TIED, "rope_parameters": ALPHA})
recipe(
    "exaone4",
    "Exaone4",
    {**LLAMA, **HEAD24, **LOCAL, "sliding_window_pattern": 4, "rope_parameters": rope(1e6, "llama3", factor=16.0, **LLAMA3)},
)
ALL_FULL = {"sliding_window": None, "sliding_window_pattern": None, "layer_types": [FULL] * 3}
recipe("exaone4_full", "Exaone4", {**LLAMA, **TIED, **ALL_FULL, "rope_parameters": rope(1e6)})
STAR = {"norm_epsilon": EPS, "use_bias": True, "residual_dropout": 0.0, "embedding_dropout": 0.0, "attention_dropout": 0.0}
recipe("starcoder2", "Starcoder2", {**PLAIN, **STAR, **TIED, **WINDOW, "rope_parameters": rope(1e5)})
recipe("nemotron", "Nemotron", {**PLAIN, "norm_eps": EPS, "head_dim": 16, "rope_parameters": rope(**HALF)})
recipe("arcee", "Arcee", {**LLAMA, "head_dim": 16, "rope_parameters": rope()})
recipe("apertus", "Apertus", {**LLAMA, "rope_parameters": rope(12e6, "llama3", factor=8.0, **LLAMA3)})
MINISTRAL = {
    "factor": 16.0,
    "original_max_position_embeddings": 16,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
}
recipe(
    "ministral3",
    "Ministral3",
    {**LLAMA, **HEAD24, "sliding_window": None, "rope_parameters": rope(1e6, "yarn", llama_4_scaling_beta=0.1, **MINISTRAL)},
)

OPT = {
    **SPECIAL,
    "vocab_size": VOCAB,
    "hidden_size": HIDDEN,
    "ffn_dim": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "dropout": 0.0,
}
recipe("opt", "OPT", {**OPT, "max_position_embeddings": 256, "word_embed_proj_dim": HIDDEN, "do_layer_norm_before": True})
recipe("opt_post_norm", "OPT", {**OPT, "max_position_embeddings": 256, "word_embed_proj_dim": 48, "do_layer_norm_before": False})
GPT = {**SPECIAL, "layer_norm_epsilon": EPS, "vocab_size": VOCAB, "n_positions": 256, "n_embd": HIDDEN, "n_layer": 3, "n_head": 4}
recipe("gpt2", "", {**GPT, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}, model="GPT2LMHeadModel", config="GPT2Config")
recipe("gptj", "GPTJ", {**GPT, "rotary_dim": 8})
recipe(
    "gpt_neox",
    "GPTNeoX",
    {**SMALL, "layer_norm_eps": EPS, "num_attention_heads": 4, "hidden_dropout": 0.0, "rope_parameters": rope(**QUARTER)},
)
recipe(
    "gpt_neox_serial",
    "GPTNeoX",
    {
        **SMALL,
        "layer_norm_eps": EPS,
        "num_attention_heads": 4,
        "hidden_dropout": 0.0,
        "use_parallel_residual": False,
        "rope_parameters": rope(**QUARTER),
    },
)
recipe("phi", "Phi", {**SMALL, "num_attention_heads": 4, "layer_norm_eps": EPS, "rope_parameters": rope(**HALF)}, keep=("qk_layernorm",))
STABLE = {**PLAIN, **NO_DROPOUT, "layer_norm_eps": EPS, "rope_parameters": rope(**QUARTER)}
recipe("stablelm", "StableLm", {**STABLE, "num_key_value_heads": 4, "use_qkv_bias": True})
recipe("stablelm_parallel", "StableLm", {**STABLE, "use_qkv_bias": False, "qk_layernorm": True, "use_parallel_residual": True})
COHERE = {**PLAIN, **TIED, "layer_norm_eps": EPS}
recipe("cohere", "Cohere", {**COHERE, "logit_scale": 0.0625, "use_qk_norm": False, "rope_parameters": rope(8e6)})
recipe("cohere_qk_norm", "Cohere", {**COHERE, "logit_scale": 0.8333, "use_qk_norm": True, "rope_parameters": rope(7.5e7)})
recipe("cohere2", "Cohere2", {**COHERE, **LOCAL, **HEAD24, "logit_scale": 0.25, "rope_parameters": rope(5e4)})
recipe("olmo", "Olmo", {**PLAIN, "clip_qkv": 1.5, "rope_parameters": rope()})
recipe("olmo2", "Olmo2", {**NEAR, "rope_parameters": rope(5e5)})
YARN = rope(
    5e5, "yarn", factor=8.0, original_max_position_embeddings=1024, attention_factor=1.2079441541679836, beta_fast=32.0, beta_slow=1.0
)
recipe("olmo3", "Olmo3", {**NEAR, **LOCAL, "rope_parameters": {SLIDING: rope(5e5), FULL: YARN}})
GLM = {**PLAIN, "attention_bias": True, "rope_parameters": rope(**HALF)}
recipe("glm", "Glm", {**GLM, "head_dim": 16, "rms_norm_eps": EPS})
recipe("glm4", "Glm4", {**GLM, **HEAD24, "rms_norm_eps": EPS, "attention_bias": False})
recipe(
    "bloom",
    "Bloom",
    {**SPECIAL, "layer_norm_epsilon": EPS, "vocab_size": VOCAB, "hidden_size": HIDDEN, "n_layer": 3, "n_head": 4},
    attempts=100,
)
FALCON = {
    **SPECIAL, "layer_norm_epsilon": EPS, "vocab_size": VOCAB, "hidden_size": HIDDEN, "num_hidden_layers": 3,
    "num_attention_heads": 4, "bias": False, "alibi": False, "ffn_hidden_size": 128, "max_position_embeddings": 512,
    "rope_parameters": rope(),
}  # fmt: skip
recipe("falcon", "Falcon", {**FALCON, "multi_query": True, "parallel_attn": True, "new_decoder_architecture": False})
recipe("falcon_grouped", "Falcon", {**FALCON, "num_kv_heads": 2, "new_decoder_architecture": True})
MPT = {"layer_norm_epsilon": EPS, "d_model": HIDDEN, "n_heads": 4, "n_layers": 3, "expansion_ratio": 2, "max_seq_len": 256}
recipe("mpt", "Mpt", {**SPECIAL, "vocab_size": VOCAB, **MPT})

GEMMA4 = {
    **GEMMA, **GROUPED, **WINDOW, "head_dim": 16, "global_head_dim": 32, "final_logit_softcapping": 30.0,
    "rope_parameters": {SLIDING: rope(), FULL: rope(1e6, "proportional", partial_rotary_factor=0.25)},
}  # fmt: skip
GEMMA4_NAMES = {"model": "Gemma4ForCausalLM", "config": "Gemma4TextConfig"}
SMALLEST = {
    **GEMMA4, "num_key_value_heads": 1, "num_hidden_layers": 6, "layer_types": [SLIDING, FULL] * 3, "num_kv_shared_layers": 2,
    "hidden_size_per_layer_input": 16, "vocab_size_per_layer_input": VOCAB,
}  # fmt: skip
LARGEST = {
    **GEMMA4, "num_hidden_layers": 4, "layer_types": [SLIDING, SLIDING, SLIDING, FULL], "num_global_key_value_heads": 1,
    "attention_k_eq_v": True, "hidden_size_per_layer_input": 0,
}  # fmt: skip
recipe("gemma4_e4b", "", {**SMALLEST, "use_double_wide_mlp": False}, noisy=True, **GEMMA4_NAMES)
recipe("gemma4_e2b", "", {**SMALLEST, "use_double_wide_mlp": True}, noisy=True, **GEMMA4_NAMES)
recipe("gemma4_31b", "", LARGEST, noisy=True, **GEMMA4_NAMES)
EXPERTS = {"enable_moe_block": True, "num_experts": 8, "top_k_experts": 2, "moe_intermediate_size": 32}
recipe("gemma4_26b_a4b", "", {**LARGEST, **EXPERTS}, noisy=True, keep=("hidden_activation",), **GEMMA4_NAMES)
GEMMA3N = {
    **GEMMA, **WINDOW, "num_key_value_heads": 2, "num_hidden_layers": 5, "head_dim": 16,
    "layer_types": [SLIDING, SLIDING, FULL, SLIDING, FULL], "intermediate_size": [96] * 5, "hidden_size_per_layer_input": 16,
    "vocab_size_per_layer_input": VOCAB, "num_kv_shared_layers": 2,
    "laurel_rank": 8, "activation_sparsity_pattern": [0.95, 0.95, 0.0, 0.0, 0.0], "altup_num_inputs": 4, "final_logit_softcapping": 30.0,
    "rope_parameters": {SLIDING: rope(), FULL: rope(1e6)},
}  # fmt: skip
recipe("gemma3n", "", GEMMA3N, model="Gemma3nForCausalLM", config="Gemma3nTextConfig", noisy=True, keep=("hidden_activation",))
