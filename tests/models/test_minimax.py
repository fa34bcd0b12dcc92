"""MiniMax Text 01 as it was published: the golden of transformers' class, with config.json in the words of the hub."""

import json
import re
from dataclasses import replace

import pytest

from tests.conformance.test_rules import assert_same_bits
from vtcore.conformance.gate import answer, judge, load
from vtcore.conformance.golden import FOLDER, Golden
from vtcore.errors import ConfigError
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.models.load import load_model
from vtcore.providers import chain

GOLDEN = Golden.load(FOLDER / "minimax_text01.json")
OURS = ("architectures", "block_size", "layer_types", "model_type", "rope_parameters", "mlp_alpha_factor", "mlp_beta_factor")
PUBLISHED = {n: v for n, v in GOLDEN.config.items() if n not in OURS and "attn_" not in n} | {
    "architectures": ["MiniMaxText01ForCausalLM"], "model_type": "minimax_text_01", "attn_type_list": [0, 0, 0, 1], "postnorm": True,
    "layernorm_full_attention_alpha": 3.5, "layernorm_full_attention_beta": 1.0, "layernorm_linear_attention_alpha": 3.5,
    "layernorm_linear_attention_beta": 1.0, "layernorm_mlp_alpha": 3.5, "layernorm_mlp_beta": 1.0, "rope_theta": 10000000,
    "rotary_dim": 16, "shared_intermediate_size": 0, "shared_moe_mode": "sigmoid",
}  # fmt: skip


def published(path, **changes):
    config = {n: v for n, v in (PUBLISHED | changes).items() if v != "absent"}
    GOLDEN.write_safetensors(path)
    (path / "config.json").write_text(json.dumps(config))
    return load_model(open_checkpoint(path))


@pytest.mark.parametrize("name", ["MiniMaxText01ForCausalLM", "MiniMaxM1ForCausalLM"])
def test_the_golden_in_the_words_of_the_hub(name, tmp_path):
    model = published(tmp_path, architectures=[name])
    assert judge(GOLDEN, answer(model, GOLDEN, chain(None))).passed
    assert model.weights.unread() == []


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"rotary_dim": 8}, {"rope_parameters": {"rope_theta": 1e7, "rope_type": "default", "partial_rotary_factor": 0.5}}),
        ({"rotary_dim": "absent"}, {}),
        ({"layernorm_full_attention_alpha": 2.0}, {"full_attn_alpha_factor": 2.0}),
        ({"layernorm_linear_attention_beta": 0.5}, {"linear_attn_beta_factor": 0.5}),
        ({"layernorm_mlp_alpha": "absent"}, {"mlp_alpha_factor": 1.0}),
    ],
)
def test_each_number_is_that_of_transformers(changes, same, tmp_path):
    other = load(replace(GOLDEN, config=GOLDEN.config | same))
    assert_same_bits(answer(published(tmp_path, **changes), GOLDEN, chain("portable")), answer(other, GOLDEN, chain("portable")))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"postnorm": False}, "postnorm is False; MiniMaxText01 is written for True alone"),
        ({"postnorm": "absent"}, "postnorm is False; MiniMaxText01 is written for True alone"),
        ({"shared_intermediate_size": 64}, "shared_intermediate_size is 64; MiniMaxText01 is written for 0 alone"),
        ({"attn_type_list": [0, 0, 1]}, "attn_type_list is [0, 0, 1] (3 entries); it must be a list of 4 zeros and ones"),
        ({"attn_type_list": [0, 0, 2, 1]}, "a list of 4 zeros and ones"),
        ({"rotary_dim": 32}, "rotary_dim is 32; it must be a whole number from 1 to 16"),
        ({"layernorm_mlp_beta": "much"}, "layernorm_mlp_beta is 'much'; it must be a number"),
        ({"num_attention_heads": 6}, "num_attention_heads is 6; of lightning attention that must be a power of two"),
    ],
)
def test_what_is_refused(changes, words, tmp_path):
    with pytest.raises(ConfigError, match=re.escape(words)):
        published(tmp_path, **changes)
