"""The ten architectures that every other is told apart from, with each variant and each kind of rope."""

from __future__ import annotations

from goldens.disguise import says
from goldens.recipe import FULL, GROUPED, LLAMA, NEAR, SLIDING, SMALL, SMALLER, recipe, rope

TIED = {"tie_word_embeddings": True}
WINDOW = {"sliding_window": 8}

recipe("llama", "Llama", {**LLAMA, "rope_parameters": rope()})
recipe("llama_bias", "Llama", {**LLAMA, "attention_bias": True, "mlp_bias": True, "rope_parameters": rope()})
recipe("llama_head_dim", "Llama", {**LLAMA, "head_dim": 24, "rope_parameters": rope(1e6)})
recipe("llama_tied", "Llama", {**LLAMA, **TIED, "num_key_value_heads": 4, "rope_parameters": rope()})
recipe("llama_bfloat16", "Llama", {**LLAMA, "rope_parameters": rope()}, dtype="bfloat16", attempts=150)
recipe("llama_rope_linear", "Llama", {**LLAMA, "rope_parameters": rope(kind="linear", factor=4.0)})
ALPHA = 1000.0  # a larger base, in the words of checkpoints
recipe(
    "llama_rope_alpha",
    "Llama",
    {**LLAMA, "rope_parameters": rope(1e4 * ALPHA ** (16 / 14))},
    disguise=says(rope_parameters=rope(kind="dynamic", alpha=ALPHA, factor=1.0)),
)
recipe(
    "llama_rope_dynamic",
    "Llama",
    {**LLAMA, "max_position_embeddings": 48, "rope_parameters": rope(kind="dynamic", factor=2.0)},
)
recipe(
    "llama_rope_llama3",
    "Llama",
    {
        **LLAMA,
        **TIED,
        "rope_parameters": rope(5e5, "llama3", factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64),
    },
)
YARN = rope(kind="yarn", factor=4.0, original_max_position_embeddings=1024, beta_fast=32.0, beta_slow=1.0)
recipe("llama_rope_yarn", "Llama", {**LLAMA, "max_position_embeddings": 4096, "rope_parameters": YARN})
recipe(
    "llama_rope_yarn_mscale",
    "Llama",
    {**LLAMA, "max_position_embeddings": 4096, "rope_parameters": {**YARN, "mscale": 0.707, "mscale_all_dim": 1.2}},
)
recipe(
    "internlm3",
    "",
    {**LLAMA, "head_dim": 24, "rope_parameters": rope(5e7, "dynamic", factor=6.0)},
    model="LlamaForCausalLM",
    config="InternLM3Config",
    disguise=says(architectures=["InternLM3ForCausalLM"]),
)
recipe("mistral", "Mistral", {**LLAMA, "head_dim": 24, "sliding_window": None, "rope_parameters": rope(1e6)})
recipe("mistral_sliding", "Mistral", {**LLAMA, **WINDOW, "rope_parameters": rope()})
recipe("qwen2", "Qwen2", {**NEAR, **TIED, "rope_parameters": rope(1e6)})
recipe("qwen2_sliding", "Qwen2", {**NEAR, **WINDOW, "use_sliding_window": True, "max_window_layers": 1, "rope_parameters": rope(1e6)})
recipe("qwen3", "Qwen3", {**NEAR, **TIED, "head_dim": 24, "rope_parameters": rope(1e6)})
recipe("qwen3_bfloat16", "Qwen3", {**NEAR, **TIED, "head_dim": 24, "rope_parameters": rope(1e6)}, dtype="bfloat16", attempts=150)
recipe("smollm3", "SmolLM3", {**NEAR, **TIED, "num_hidden_layers": 4, "no_rope_layer_interval": 4, "rope_parameters": rope(5e6)})

PHI = {**LLAMA, "original_max_position_embeddings": 512, "sliding_window": None}
recipe("phi3", "Phi3", {**PHI, "rope_parameters": rope(250000.0)})
recipe("phi3_sliding", "Phi3", {**PHI, **WINDOW, "rope_parameters": rope()})
SHORT, LONG = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5], [1.1, 2.08, 3.06, 4.04, 5.02, 6.0]
BORDER = {"original_max_position_embeddings": 128}
LONGROPE = rope(kind="longrope", partial_rotary_factor=0.75, short_factor=SHORT, long_factor=LONG, factor=8.0, **BORDER)
BOTH = {**PHI, **TIED, **BORDER, "max_position_embeddings": 1024, "rope_parameters": LONGROPE}
recipe("phi3_longrope_short", "Phi3", BOTH, max_model_len=128)
# The longest sequence that may come decides which factors serve; transformers goes by the longest seen, so both its lists are the long one.
recipe(
    "phi3_longrope_long",
    "Phi3",
    BOTH,
    max_model_len=1024,
    oracle={"rope_parameters": {**LONGROPE, "short_factor": LONG}},
)
recipe(
    "granite",
    "Granite",
    {
        **LLAMA,
        **TIED,
        "embedding_multiplier": 12.0,
        "logits_scaling": 8.0,
        "residual_multiplier": 0.22,
        "attention_multiplier": 0.09375,
        "rope_parameters": rope(1e7),
    },
)
GEMMA = {**SMALL, **TIED, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 24, "rms_norm_eps": SMALLER}
recipe("gemma", "Gemma", {**GEMMA, "hidden_act": "gelu_pytorch_tanh", "rope_parameters": rope()})
CAPS = {"final_logit_softcapping": 30.0, "attn_logit_softcapping": 50.0}
recipe(
    "gemma2",
    "Gemma2",
    {**GEMMA, **GROUPED, **CAPS, **WINDOW, "num_hidden_layers": 4, "query_pre_attn_scalar": 32, "rope_parameters": rope()},
)
recipe("gemma2_own_scale", "Gemma2", {**GEMMA, **GROUPED, **CAPS, **WINDOW, "query_pre_attn_scalar": 24, "rope_parameters": rope(3e4)})
GEMMA3 = {**GEMMA, **WINDOW, "num_hidden_layers": 4, "query_pre_attn_scalar": 32, "layer_types": [SLIDING, SLIDING, FULL, SLIDING]}
GEMMA3_NAMES = {"model": "Gemma3ForCausalLM", "config": "Gemma3TextConfig"}
recipe("gemma3", "", {**GEMMA3, "rope_parameters": {SLIDING: rope(), FULL: rope(1e6)}}, **GEMMA3_NAMES)
STRETCHED = {SLIDING: rope(), FULL: rope(1e6, "linear", factor=8.0)}
recipe("gemma3_rope_linear", "", {**GEMMA3, "num_key_value_heads": 2, "rope_parameters": STRETCHED}, **GEMMA3_NAMES)
SIX = {"num_hidden_layers": 7, "query_pre_attn_scalar": 24, "layer_types": [*[SLIDING] * 5, FULL, SLIDING]}
recipe("gemma3_six", "", {**GEMMA3, **SIX, "rope_parameters": {SLIDING: rope(), FULL: rope(1e6)}}, **GEMMA3_NAMES)
