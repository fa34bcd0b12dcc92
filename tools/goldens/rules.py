"""What a second network has instead of each number of config.json: near to it, allowed beside the others, and far enough to be seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Path = tuple[str, ...]  # of a field: the names that lead to it
Rule = Callable[[Any], Any]


def scaled(factor: float) -> Rule:
    """A number by a factor; of a list, each."""
    return lambda value: [v * factor for v in value] if isinstance(value, list) else type(value)(value * factor)


def among(*pairs: tuple[Any, Any]) -> Rule:
    """By a table; what is not in it stays."""
    return lambda value: next((new for old, new in pairs if old == value), value)


def turned(value: list[Any]) -> list[Any]:
    """The last comes first."""
    return [*value[-1:], *value[:-1]]


def flipped(value: bool) -> bool:
    """The other."""
    return not value


def swapped(one: Any, other: Any) -> Rule:
    """Each for the other."""
    return among((one, other), (other, one))


GELU = "gelu_pytorch_tanh"
GROUPS: tuple[tuple[Rule, str], ...] = (  # a rule, and the fields that it is for
    (scaled(4.0), "rms_norm_eps layer_norm_eps layer_norm_epsilon norm_eps norm_epsilon"),
    (swapped(1, 2), "num_key_value_heads num_kv_heads n_groups mamba_n_groups n_shared_experts"),
    (among((4, 8)), "num_attention_heads n_head n_heads"),
    (among((2, 3)), "num_experts_per_tok moe_k moe_topk top_k_experts"),
    (turned, "layer_types layers_block_type mlp_layer_types indexer_types"),
    (among((4, 3)), "conv_kernel mamba_d_conv linear_conv_kernel_dim"),
    (among((8, 12), (16, 24)), "state_size mamba_d_state ssm_state_size rotary_dim qk_rope_head_dim laurel_rank"),
    (among((4, 6)), "mamba_dt_rank time_step_rank"),
    (among((128, 96)), "ffn_dim ffn_hidden_size"),
    (among(("silu", GELU), (GELU, "gelu"), ("gelu", "gelu_new"), ("gelu_new", "gelu"), ("relu", "gelu_new")), "hidden_act"),
    (among((GELU, "gelu"), ("gelu", "gelu_new"), ("gelu_new", "gelu"), ("relu", "gelu_new")), "hidden_activation activation_function"),
    (
        flipped,
        "tie_word_embeddings norm_topk_prob attention_bias mlp_bias use_bias bias use_qkv_bias lm_head_bias qk_layernorm use_qk_norm",
    ),
    (flipped, "use_parallel_residual mamba_conv_bias mamba_proj_bias use_conv_bias mamba_rms_norm mamba_norm_before_gate conv_bias"),
    (
        flipped,
        "linear_allow_neg_eigval attn_temperature_tuning use_double_wide_mlp rope_interleave truncate multi_query attention_out_bias",
    ),
    (swapped(16, 24), "head_dim dim_model_base"),
    (scaled(0.5), "intermediate_size original_max_position_embeddings beta_fast"),
    (scaled(2.0), "factor low_freq_factor"),
    (among((32, 24)), "moe_intermediate_size"),
    (among((48, 32), (32, 48)), "shared_intermediate_size shared_expert_intermediate_size"),
    (among((8, 5)), "sliding_window"),
    (among((16, 12)), "attention_chunk_size qk_nope_head_dim"),
    (among((16, 8)), "floor_scale block_size"),
    (among((1, 2)), "first_k_dense_replace decoder_sparse_step"),
    (among(([0], [1]), ([1], [2])), "mlp_only_layers attn_layer_indices"),
    (among((1, 0)), "moe_layer_start_index expert_layer_offset"),
    (among((2, 1)), "attn_layer_offset moe_num_shared_experts topk_group"),
    (among((4, 2)), "no_rope_layer_interval n_group"),
    (swapped(20, 24), "q_lora_rank"),
    (among((24, 28)), "kv_lora_rank"),
    (among((12, 20), (16, 12)), "v_head_dim"),
    (among((8, 6), (4, 3)), "index_topk"),
    (among((20, 3)), "hc_sinkhorn_iters"),
    (among((3, 4)), "conv_L_cache"),
    (among((32, 20), (24, 40)), "query_pre_attn_scalar"),
    (among((2, 0)), "num_kv_shared_layers"),
    (among((12, 9)), "scale_emb"),
    (scaled(3.0), "rope_theta"),
    (among((0.25, 0.5), (0.5, 0.75)), "partial_rotary_factor"),
    (among(([4, 6, 6, 6], [4, 2, 4, 6])), "num_attention_heads_per_layer"),
    (lambda rates: {kind: 2 * rate for kind, rate in rates.items()}, "compress_rates"),
    (lambda same: same, "attention_dropout initializer_range init_std router_aux_loss_coef router_jitter_noise classifier_dropout"),
    (lambda same: same, "time_step_min time_step_max time_step_floor summary_first_dropout embedding_fraction beta_slow high_freq_factor"),
)
RULES = {name: rule for rule, names in GROUPS for name in names.split()}


def candidates(numbers: Mapping[str, Any], path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every field that a rule changes, and every other number with a fraction; and what it becomes."""
    for name, value in numbers.items():
        if isinstance(value, dict) and name not in RULES:
            yield from candidates(value, (*path, name))
        elif value is not None and (new := RULES.get(name, scaled(0.8) if fractions(value) else lambda same: same)(value)) != value:
            yield (*path, name), new


def fractions(value: Any) -> bool:
    """A float other than 0, or a list of them."""
    several = value if isinstance(value, list) else [value]
    return bool(several) and all(isinstance(v, float) and v for v in several)
