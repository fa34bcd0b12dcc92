"""Configs of recurrent and hybrid families: other spellings of the same numbers, and what is refused by name."""

from dataclasses import replace

import numpy as np
import pytest

from vtcore.conformance.gate import load
from vtcore.conformance.golden import FOLDER, Golden
from vtcore.errors import CheckpointError, ConfigError, VtcoreError
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.models.load import identify
from vtcore.models.minimax_text01 import slopes

LINEAR = ["linear_attention"] * 3 + ["full_attention"]


def config(name, tmp_path, change, without=()):
    golden = Golden.load(FOLDER / f"{name}.json")
    kept = {n: v for n, v in golden.config.items() if n not in without}
    return identify(open_checkpoint(replace(golden, config=kept | change).write_safetensors(tmp_path))).config


@pytest.mark.parametrize(
    ("name", "change", "without", "kinds"),
    [
        ("nemotron_h", {"hybrid_override_pattern": "M-M*-", "num_hidden_layers": 5}, ["layers_block_type"],
         ("mamba", "mlp", "mamba", "full_attention", "mlp")),
        ("nemotron_h_moe", {"hybrid_override_pattern": "ME*E"}, ["layers_block_type"], ("mamba", "moe", "full_attention", "moe")),
        ("qwen3_5", {"full_attention_interval": 4}, ["layer_types"], tuple(LINEAR)),
        ("kimi_linear", {"linear_attn_config": {"kda_layers": [1, 2, 3], "full_attn_layers": [4], "num_heads": 4, "head_dim": 16,
         "short_conv_kernel_size": 4}}, ["layer_types", "linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim"], tuple(LINEAR)),
        ("granite_moe_hybrid", {"layer_types": ["mamba", "attention", "mamba"]}, [], ("mamba", "full_attention", "mamba")),
        ("jamba", {}, [], ("mamba", "mamba", "full_attention", "mamba")),
        ("bamba", {}, [], ("mamba", "full_attention", "mamba")),
        ("mamba2", {}, [], ("mamba",) * 3),
    ],
)  # fmt: skip
def test_kinds_of_layers(name, change, without, kinds, tmp_path):
    made = config(name, tmp_path, change, without)
    assert made.kinds == kinds
    if name == "kimi_linear":
        assert (made.linear_num_heads, made.linear_head_dim, made.linear_conv_kernel_dim) == (4, 16, 4)


def test_jamba_s_experts_are_in_every_second_layer(tmp_path):
    assert config("jamba", tmp_path / "a", {}).mlp_kinds == ("dense", "sparse", "dense", "sparse")
    assert config("jamba", tmp_path / "b", {"num_experts": 1, "num_experts_per_tok": 1}).mlp_kinds == ("dense",) * 4


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("mamba2", {"time_step_limit": [0.5, 0.1]}, "time_step_limit is [0.5, 0.1]"),
        ("mamba2", {"time_step_limit": 3}, "time_step_limit is 3"),
        ("mamba2", {"time_step_limit": ["a", None]}, "time_step_limit"),
        ("mamba2", {"state_size": 0}, "state_size is 0"),
        ("mamba2", {"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000"),
        ("mamba", {"conv_kernel": "four"}, "conv_kernel is"),
        ("mamba", {"hidden_act": "gelu"}, "hidden_act is 'gelu'"),
        ("falcon_h1", {"ssm_multipliers": [1.0]}, "ssm_multipliers is"),
        ("falcon_h1", {"key_multiplier": 0}, "key_multiplier is 0"),
        ("falcon_h1", {"mamba_norm_before_gate": True}, "mamba_norm_before_gate is True"),
        ("nemotron_h", {"layers_block_type": ["mamba", "what"]}, "layers_block_type is 'what'"),
        ("nemotron_h", {"hybrid_override_pattern": "MX"}, "layers_block_type is 'X'"),
        ("nemotron_h", {"mlp_hidden_act": "gelu"}, "mlp_hidden_act is 'gelu'"),
        ("nemotron_h", {"moe_latent_size": 8}, "moe_latent_size is 8"),
        ("bamba", {"attn_layer_indices": "all"}, "attn_layer_indices is"),
        ("qwen3_5", {"layer_types": ["sliding_attention"] * 4}, "layers of Qwen35 are"),
        ("qwen3_5", {"linear_num_key_heads": 3}, "linear_attn.conv1d.weight"),
        ("kimi_linear", {"mla_use_nope": False}, "mla_use_nope is False"),
        ("lfm2_moe", {"use_expert_bias": False}, "use_expert_bias is False"),
        ("jamba", {"attn_layer_period": 0}, "attn_layer_period is 0"),
        ("granite_moe_hybrid", {"layer_types": ["mamba"]}, "layer_types is"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(name, change, words):
    golden = Golden.load(FOLDER / f"{name}.json")
    with pytest.raises((ConfigError, CheckpointError)) as raised:
        load(replace(golden, config=golden.config | change))
    assert words in str(raised.value)


def test_a_number_that_is_missing_is_named():
    golden = Golden.load(FOLDER / "qwen3_5.json")
    with pytest.raises(VtcoreError, match="linear_num_value_heads"):
        load(replace(golden, config={n: v for n, v in golden.config.items() if n != "linear_num_value_heads"}))


def test_slopes_of_lightning_attention():
    """The first layer forgets as ALiBi's slopes say, the last hardly at all."""
    np.testing.assert_allclose(slopes(8, 0, 4), 2.0 ** -np.arange(1, 9) * (1 + 1e-5), rtol=1e-6)
    assert (slopes(8, 3, 4) < 1e-5).all()


@pytest.mark.parametrize(
    "name", ["bamba", "granite_moe_hybrid", "falcon_h1", "jamba", "minimax_text01", "qwen3_next", "olmo_hybrid", "kimi_linear"]
)
def test_convolutions_have_one_activation(name):
    golden = Golden.load(FOLDER / f"{name}.json")
    with pytest.raises(ConfigError, match=r"activation 'gelu_pytorch_tanh' is not one that .* can have; it can have silu"):
        load(replace(golden, config=golden.config | {"hidden_act": "gelu_pytorch_tanh"}))
