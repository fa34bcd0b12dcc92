"""Numbers of config.json that only some families have: they read them from `ModelConfig.rest` by their own names, checked here."""

from vtcore.errors import ConfigError
from vtcore.models.fields import Fields

NUMBERS = (
    "embedding_multiplier", "residual_multiplier", "logits_scaling", "attention_multiplier", "query_pre_attn_scalar", "logit_scale",
    "alibi_bias_max", "routed_scaling_factor", "hc_eps", "swiglu_limit", "activation_situ_beta", "activation_situ_linear_beta",
)  # fmt: skip
INTEGERS = (
    "intermediate_size", "no_rope_layer_interval", "word_embed_proj_dim", "global_head_dim", "num_global_key_value_heads",
    "num_ln_in_parallel_attn", "n_group", "topk_group",
    "moe_intermediate_size", "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim",
    "index_topk", "index_n_heads", "index_head_dim",
    "o_groups", "o_lora_rank", "hc_mult", "hc_sinkhorn_iters", "altup_num_inputs", "vocab_size_per_layer_input",
    "attn_res_block_size", "routed_expert_hidden_size",
)  # fmt: skip
STATES = (
    "mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state", "mamba_d_conv", "mamba_num_heads", "mamba_head_dim", "n_groups",
    "ssm_state_size", "state_size", "conv_kernel", "conv_L_cache", "linear_num_key_heads", "linear_num_value_heads",
    "linear_key_head_dim", "linear_value_head_dim", "linear_conv_kernel_dim", "mamba_expand", "linear_num_heads", "linear_head_dim",
)  # fmt: skip
COUNTS = (
    "num_kv_shared_layers",
    "hidden_size_per_layer_input",
    "num_experts",
    "num_experts_per_tok",
    "num_nextn_predict_layers",
)  # that may be none
FLAGS = (
    "use_parallel_residual", "qk_layernorm", "do_layer_norm_before", "multi_query", "new_decoder_architecture", "attention_k_eq_v",
    "norm_topk_prob", "rope_interleave", "mamba_rms_norm", "linear_allow_neg_eigval", "use_qk_norm", "enable_moe_block",
)  # fmt: skip
FEW, MOST_ROUNDS = ("hc_mult", "hc_sinkhorn_iters", "altup_num_inputs"), 256  # how often a forward repeats something
SMALL = ("floor_scale", "attn_scale", "swiglu_alpha", "router_jitter_noise", "clip_qkv")  # that may be zero
SWITCHES = ("no_rope_layers",)  # one 0 or 1 for each layer


def check_own(f: Fields, layers: int) -> None:
    """Refuse, by name, what is of a wrong type or out of range."""
    for key in filter(f.has, NUMBERS):
        f.number(key, above=True)
    for key in filter(f.has, INTEGERS + STATES):
        f.integer(key)
    for key in filter(f.has, FEW):
        f.integer(key, high=MOST_ROUNDS)
    for key in filter(f.has, SMALL):
        f.number(key)
    for key in filter(f.has, COUNTS):
        f.integer(key, low=0)
    if f.has("num_experts") and f.has("num_experts_per_tok") and f.integer("num_experts_per_tok", low=0) > f.integer("num_experts", low=0):
        few, many = f.name("num_experts"), f.name("num_experts_per_tok")
        raise ConfigError(f"{f.file}: {many} is {f.raw['num_experts_per_tok']}; it must not be over {few}, {f.raw['num_experts']}")
    for key in FLAGS:
        f.flag(key)
    for key in filter(f.has, SWITCHES):
        f.switches(key, layers)
