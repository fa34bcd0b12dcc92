"""Latent and sparse attention: other words for the same model, and what is refused."""

import json
import re

import pytest

from vtcore.conformance.gate import answer, judge
from vtcore.conformance.golden import FOLDER, Golden
from vtcore.errors import ConfigError, VtcoreError
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.models.load import load_model


def golden(name):
    return Golden.load(FOLDER / f"{name}.json")


def said_otherwise(name, directory, without=(), **changes):
    g = golden(name)
    path = g.write_safetensors(directory)
    config = {n: v for n, v in g.config.items() if n not in without} | changes
    (path / "config.json").write_text(json.dumps(config))
    return load_model(open_checkpoint(path), max_model_len=g.max_model_len)


HUB = {
    "compress_ratios": [0, 4, 8, 4, 0],
    "num_hash_layers": 1,
    "rope_scaling": {"type": "yarn", "factor": 16, "original_max_position_embeddings": 4096, "beta_fast": 32, "beta_slow": 1},
}


@pytest.mark.parametrize(
    ("name", "without", "changes"),
    [
        ("deepseek_v4", ["layer_types", "mlp_layer_types", "compress_rates", "rope_parameters", "partial_rotary_factor"], HUB),
        ("deepseek_v32", ["layer_types", "mlp_layer_types"], {"first_k_dense_replace": 1}),
        ("deepseek_v3", ["head_dim", "num_key_value_heads"], {"topk_method": "noaux_tc", "scoring_func": "sigmoid", "moe_layer_freq": 1}),
        ("deepseek_v2_lite", ["topk_method", "norm_topk_prob"], {"q_lora_rank": None, "scoring_func": "softmax"}),
    ],
)
def test_the_same_in_other_words(name, without, changes, tmp_path):
    g = golden(name)
    verdict = judge(g, answer(said_otherwise(name, tmp_path, without, **changes), g))
    assert verdict.passed, str(verdict)


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("minicpm3", {"kv_lora_rank": None}, "config.json has no kv_lora_rank"),
        ("minicpm3", {"v_head_dim": 0}, "v_head_dim is 0"),
        ("minicpm3", {"q_lora_rank": "20"}, "q_lora_rank is '20'"),
        ("minicpm3", {"qk_rope_head_dim": 7}, "rope turns 7 of a head's 7 channels"),
        ("minicpm3", {"kv_lora_rank": 25}, "kv_a_layernorm"),
        ("deepseek_v2", {"topk_method": "noaux_tc"}, "topk_method is 'noaux_tc'; it must be one of greedy, group_limited_greedy"),
        ("deepseek_v2", {"norm_topk_prob": True}, "norm_topk_prob is True; DeepseekV2 is written for False alone"),
        ("deepseek_v3", {"rope_interleave": "no"}, "rope_interleave is 'no'; it must be true or false"),
        ("deepseek_v3", {"n_group": 3}, "groups is 3; it must divide the number of experts, 8"),
        ("deepseek_v32", {"index_topk": 0}, "index_topk is 0"),
        ("deepseek_v32", {"index_head_dim": 6}, "channels can't be cut into heads"),
        ("glm_moe_dsa", {"indexer_types": ["shared", "full", "full", "full"]}, "indexer_types begins with 'shared'"),
        ("glm_moe_dsa", {"indexer_types": ["full"]}, "indexer_types is ['full'] (1 entries); it must be a list of 4 words"),
        ("deepseek_v4", {"compress_rates": {"compressed_sparse_attention": 4}}, "compress_rates has no heavily_compressed_attention"),
        ("glm_moe_dsa", {"index_head_dim": 3}, "channels can't be cut into heads"),
        ("deepseek_v4", {"index_head_dim": None}, "the model's config has no 'index_head_dim'"),
        ("deepseek_v4", {"rope_parameters": {"rope_theta": 1e4}}, "rope_parameters has 'rope_theta'; it must have main and compress"),
        ("deepseek_v4", {"layer_types": 3}, "layer_types is 3; it must be a list of 4 words"),
        ("deepseek_v4", {"compress_rates": 3}, "compress_rates is 3; it must be an object"),
        ("deepseek_v4", {"layer_types": None, "compress_ratios": [0, 8, 16, 4]}, "it must have 0, 4 or one other number for each of 4"),
        ("deepseek_v4", {"scoring_func": "sigmoid"}, "scoring_func is 'sigmoid'; DeepseekV4 is written for 'sqrtsoftplus' alone"),
        ("deepseek_v4", {"hc_mult": 3}, "for 3 streams it must have 15"),
    ],
)
def test_what_is_refused(name, changes, words, tmp_path):
    with pytest.raises(VtcoreError, match=re.escape(words)):
        said_otherwise(name, tmp_path, **changes)


def test_every_field_that_is_missing_is_named(tmp_path):
    for field in ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"):
        with pytest.raises(ConfigError, match=f"has no {field}"):
            said_otherwise("deepseek_v3", tmp_path / field, [field])


def test_layers_that_draft_are_not_read(tmp_path):
    g = golden("deepseek_v3")
    model = said_otherwise("deepseek_v3", tmp_path, num_hidden_layers=2, num_nextn_predict_layers=1)
    assert len(model.layers) == 2
    assert {n.split(".")[2] for n in model.weights.tensors if n.startswith("model.layers.")} == {"0", "1", "2"}
    assert answer(model, g)
