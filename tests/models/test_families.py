"""What checkpoints of the hub say in words of their own, and what is refused of them."""

import json
import re
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models import rand
from tests.writers import write_safetensors
from vtcore.conformance.gate import answer, judge
from vtcore.conformance.golden import FOLDER, Golden
from vtcore.errors import CheckpointError, ConfigError, TensorNamesError, VtcoreError
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.formats.metadata import Metadata
from vtcore.models.alibi import slopes
from vtcore.models.config import ModelConfig
from vtcore.models.decoder import Decoder
from vtcore.models.gguf_special import READERS, numbers
from vtcore.models.load import identify, load_model
from vtcore.models.names import Turned, outline
from vtcore.models.registry import ARCHITECTURES, load_all
from vtcore.models.rope_config import turning
from vtcore.models.weights import Weights
from vtcore.quant.blocks import FORMATS, Blocks

load_all()


def golden(name):
    return Golden.load(FOLDER / f"{name}.json")


def config_of(name: str, **raw) -> ModelConfig:
    cls = ARCHITECTURES[name]
    assert issubclass(cls, Decoder)
    cls = cls.variant(raw)
    return cls.read_config(cls.defaults | raw)


def said_otherwise(name, tmp_path, without=(), **changes):
    """The model of a golden whose config.json says the same in another way."""
    g = golden(name)
    path = g.write_safetensors(tmp_path)
    config = {n: v for n, v in g.config.items() if n not in without} | changes
    (path / "config.json").write_text(json.dumps(config))
    return g, load_model(open_checkpoint(path))


@pytest.mark.parametrize(
    ("name", "without", "changes"),
    [
        ("gpt_neox", ["rope_parameters"], {"rotary_pct": 0.25, "rotary_emb_base": 10000}),
        ("stablelm", ["rope_parameters"], {"rope_theta": 10000, "rope_pct": 0.25}),
        ("falcon", ["num_kv_heads", "rope_parameters"], {}),
        ("cohere2", ["layer_types"], {"sliding_window_pattern": 4}),
        ("exaone4", ["layer_types"], {}),
        ("olmo3", ["layer_types"], {}),
        ("phi", ["rope_parameters"], {}),
        ("glm", ["rope_parameters"], {}),
        ("nemotron", ["rope_parameters"], {}),
        ("gemma4_31b", ["per_layer_config"], {"global_head_dim": 32, "num_global_key_value_heads": 1}),
        ("gemma4_e2b", ["per_layer_config"], {"global_head_dim": 32, "num_global_key_value_heads": 7}),
        ("bloom", ["tie_word_embeddings"], {"seq_length": 512}),
        ("opt", ["do_layer_norm_before", "enable_bias", "tie_word_embeddings"], {}),
        ("gpt2", ["tie_word_embeddings", "activation_function"], {"n_ctx": 256}),
    ],
)
def test_the_same_in_other_words(name, without, changes, tmp_path):
    g, model = said_otherwise(name, tmp_path, without, **changes)
    assert judge(g, answer(model, g)).passed


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("opt", "_remove_final_layer_norm is True; OPT is written for False alone"),
        ("gpt2", "scale_attn_by_inverse_layer_idx is True; GPT2 is written for False alone"),
        ("falcon", "alibi is True; Falcon is written for False alone"),
        ("phi", "qk_layernorm is True; Phi is written for False alone"),
        ("bloom", "apply_residual_connection_post_layernorm is True; Bloom is written for False alone"),
    ],
)
def test_what_would_change_the_forward_is_refused(name, words, tmp_path):
    with pytest.raises(ConfigError) as e:
        said_otherwise(name, tmp_path, **{words.split()[0]: True})
    assert words in str(e.value)
    assert str(tmp_path / "config.json") in str(e.value)


def test_a_wrong_value_is_named_as_the_file_names_it():
    with pytest.raises(ConfigError, match="n_layers is 'many'"):
        config_of("MptForCausalLM", d_model=64, n_heads=4, n_layers="many")
    with pytest.raises(ConfigError, match="rotary_dim is 32; it must be a whole number from 1 to 16"):
        config_of("GPTJForCausalLM", n_embd=64, n_head=4, n_layer=2, rotary_dim=32)
    with pytest.raises(ConfigError, match="attn_config is 3; it must be an object"):
        config_of("MptForCausalLM", d_model=64, n_heads=4, n_layers=2, attn_config=3)
    with pytest.raises(ConfigError, match="clip_qkv is -1"):
        config_of("OlmoForCausalLM", hidden_size=64, num_attention_heads=4, num_hidden_layers=2, clip_qkv=-1)


def test_mpt_keeps_some_numbers_in_an_inner_object():
    inner = {"alibi": True, "clip_qkv": 8.0, "softmax_scale": 0.5, "alibi_bias_max": 4}
    c = config_of("MPTForCausalLM", d_model=64, n_heads=4, n_layers=2, max_seq_len=99, attn_config=inner)
    assert (c.scale, c.clip_qkv, c.alibi_bias_max, c.context) == (0.5, 8.0, 4, 99)
    with pytest.raises(ConfigError, match="qk_ln is True"):
        config_of("MPTForCausalLM", d_model=64, n_heads=4, n_layers=2, attn_config={"qk_ln": True})


def test_a_layer_of_wider_heads_has_another_scale_of_scores():
    raw = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "per_layer_config": {"1": {"head_dim": 64}}}
    assert [config_of("LlamaForCausalLM", **raw).layer(i).scale for i in (0, 1)] == [0.25, 0.125]
    assert [config_of("Gemma4ForCausalLM", **raw | {"head_dim": 16}).layer(i).scale for i in (0, 1)] == [1.0, 1.0]
    raw |= {"query_pre_attn_scalar": 4}
    assert [config_of("LlamaForCausalLM", **raw).layer(i).scale for i in (0, 1)] == [0.5, 0.5]


def test_minicpm_s_multipliers():
    numbers = {"scale_emb": 10, "scale_depth": 1.4, "dim_model_base": 16}
    c = config_of("MiniCPMForCausalLM", hidden_size=64, num_attention_heads=4, num_hidden_layers=4, **numbers)
    assert (c.embedding_multiplier, c.residual_multiplier, c.logits_scaling, c.scale) == (10, 0.7, 4, 0.25)


@pytest.mark.parametrize(
    ("raw", "kv_heads", "two"),
    [
        ({"multi_query": True}, 1, False),
        ({"multi_query": False}, 4, False),
        ({"new_decoder_architecture": True, "num_kv_heads": 2}, 2, True),
        ({"new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1}, 2, False),
    ],
)
def test_falcons(raw, kv_heads, two):
    cls = ARCHITECTURES["FalconForCausalLM"]
    assert (cls.variant(raw).__name__ == "FalconTwoNorms") is two
    assert config_of("FalconForCausalLM", hidden_size=64, num_attention_heads=4, num_hidden_layers=2, **raw).kv_heads == kv_heads


@pytest.mark.parametrize("name", ["gpt2", "bloom", "opt"])
def test_names_without_the_part_that_all_begin_with(name, tmp_path):
    """And with the buffers that the first files hold."""
    g = golden(name)
    path = g.write_safetensors(tmp_path)
    first = next(iter(g.weights())).partition(".")[0] + "."
    weights = {n.removeprefix(first): a for n, a in g.weights().items()}
    layer = next(n for n in weights if ".0." in n).partition(".0.")[0]
    weights |= {f"{layer}.0.attn.bias": np.ones((1, 1, 4, 4), np.float32)} if name == "gpt2" else {}
    write_safetensors(path / "model.safetensors", weights)
    model = load_model(open_checkpoint(path))
    assert judge(g, answer(model, g)).passed
    del weights[next(n for n in weights if ".1." in n and n.endswith("weight"))]
    write_safetensors(path / "model.safetensors", weights)
    with pytest.raises(TensorNamesError, match=f"1 missing: {layer}"):
        load_model(open_checkpoint(path))


def test_norms_of_heads_are_stacked_and_must_be_complete(tmp_path):
    g = golden("stablelm_parallel")
    path = g.write_safetensors(tmp_path)
    model = load_model(open_checkpoint(path))
    assert model.layers[1].q_norm.weight.shape == (4, 16)
    norms = "model.layers.1.self_attn.q_layernorm.norms."
    for gone, kind, words in (
        ((2,), CheckpointError, f"{norms}0.weight [16]: mul: y has shape [2, 16]"),
        (range(4), TensorNamesError, f"1 missing: {norms}0.weight"),
    ):
        left = {n: a for n, a in g.weights().items() if n not in {f"{norms}{i}.weight" for i in gone}}
        write_safetensors(path / "model.safetensors", left)
        with pytest.raises(kind, match=re.escape(words)):
            load_model(open_checkpoint(path))


def test_a_matrix_that_is_stored_the_other_way_round(tmp_path):
    """Its dtype stays; of a wrong shape or quantised it is refused by name."""
    g = golden("gpt2")
    path = g.write_safetensors(tmp_path, dtype="bfloat16")
    model = load_model(open_checkpoint(path))
    w = model.layers[0]
    assert (w.up_proj.weight.shape, str(w.up_proj.weight.dtype)) == ((256, 64), "bfloat16")
    assert w.q_proj.weight.shape == (64, 64)
    blocks = Blocks(np.zeros((4, 34), np.uint8), FORMATS["Q8_0"])
    with pytest.raises(ValueError, match="can't be transposed"):
        Turned()(blocks, w.config)
    assert Turned()(outline((3, 5), np.dtype(np.float16)), w.config).shape == (5, 3)
    name = "transformer.h.0.mlp.c_fc.weight"
    write_safetensors(path / "model.safetensors", g.weights() | {name: g.weights()[name].T.copy()})
    with pytest.raises(CheckpointError, match=r"transformer\.h\.0\.mlp\.c_fc"):
        load_model(open_checkpoint(path))


def test_slopes_of_any_number_of_heads():
    """Press and others: a geometric sequence from 2^(-8 / n); beyond a power of two every other one of twice as many."""
    np.testing.assert_array_equal(slopes(8, 8), np.float32([2.0**-i for i in range(1, 9)]))
    np.testing.assert_allclose(slopes(6, 8), [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3], rtol=1e-6)
    np.testing.assert_allclose(slopes(4, 4), [2**-1, 2**-2, 2**-3, 2**-4], rtol=1e-6)


def test_turning_channels_survive_being_a_fraction():
    for width in range(2, 300, 2):
        for channels in range(2, width + 1, 2):
            assert int(width * turning(channels, width)) == channels
    assert turning(20, 16) > 1


def test_numbers_of_curves_must_be_there_for_each_layer():
    lists = {f"xielu.{n}": [0.5, 0.5] for n in ("alpha_p", "alpha_n", "beta", "eps")}
    made = numbers(Metadata({"apertus.block_count": 2} | lists), "apertus")
    assert len(made) == 8
    assert made["blk.1.xielu.beta"].load().tolist() == [0.5]
    with pytest.raises(ConfigError, match=r"xielu\.alpha_p has 2 entries; it must have one for each of 3 layers"):
        numbers(Metadata({"apertus.block_count": 3} | lists), "apertus")
    with pytest.raises(ConfigError, match=r"xielu\.eps"):
        numbers(Metadata({"apertus.block_count": 2} | lists | {"xielu.eps": "small"}), "apertus")
    assert numbers(Metadata({}), "llama") == {}


def test_special_metadata_of_wrong_types():
    for name, key in (("mistral3", "attention.temperature_scale"), ("gemma4", "attention.key_length_swa")):
        with pytest.raises(ConfigError, match=key.replace(".", r"\.")):
            READERS[name]({"rope_scaling": {}}, Metadata({f"{name}.{key}": "much", f"{name}.block_count": 1}), Weights({}))


JUNK = ["x", -1, 0, 1.5, [], {}, [1], 10**30, float("nan")]
ANY = [golden(n) for n in ("gemma4_e2b", "ministral3", "mpt", "falcon_grouped", "gptj", "minicpm", "stablelm_parallel", "opt_post_norm")]


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_a_config_with_one_wrong_value_is_read_or_refused(tmp_path_factory, data):
    g = data.draw(st.sampled_from(ANY), "golden")
    key = data.draw(st.sampled_from(sorted(set(g.config) - {"architectures"})), "key")
    changed = g.config | {key: data.draw(st.sampled_from(JUNK), "value")}
    path = replace(g, config=changed).write_safetensors(tmp_path_factory.mktemp("junk"))
    with suppress(VtcoreError):
        load_model(open_checkpoint(path))


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("gemma4_e2b", "num_kv_shared_layers", "two"),
        ("gemma4_e2b", "hidden_size_per_layer_input", -4),
        ("gemma4_31b", "attention_k_eq_v", "yes"),
        ("stablelm", "use_parallel_residual", 1),
        ("falcon", "num_ln_in_parallel_attn", "both"),
        ("deepseek_v3", "q_lora_rank", ""),
        ("deepseek_v32", "rope_parameters", {"rope": {}}),
        ("bamba", "time_step_limit", []),
        ("olmo_hybrid", "linear_allow_neg_eigval", "no"),
        ("gemma3", "use_bidirectional_attention", True),
    ],
)
def test_a_number_or_a_switch_of_one_family_is_checked(name, key, value, tmp_path):
    with pytest.raises(ConfigError, match=f"{key} (is|has)"):
        said_otherwise(name, tmp_path, **{key: value})


@pytest.mark.parametrize("name", ["gemma", "deepseek_v3", "mamba"])
def test_the_embedding_is_as_wide_as_the_config_says(name, tmp_path):
    with pytest.raises(CheckpointError, match="the config's hidden_size is 8192"):
        said_otherwise(name, tmp_path, hidden_size=8192)


def test_words_of_an_own_family_are_not_those_of_others(tmp_path):
    """A Llama that says use_parallel_residual is a Llama."""
    assert type(rand.load(tmp_path, rand.CONFIG | {"use_parallel_residual": True})).__name__ == "Llama"
    assert identify(open_checkpoint(tmp_path)).cls.__name__ == "Llama"
