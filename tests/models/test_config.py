"""config.json in both spellings, and what is refused in it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.rand import CONFIG
from vtcore.errors import ConfigError
from vtcore.models.config import ModelConfig
from vtcore.models.gemma import Gemma
from vtcore.models.gemma2 import Gemma2
from vtcore.models.gemma3 import Gemma3
from vtcore.models.llama import Llama
from vtcore.models.mistral import Mistral
from vtcore.models.phi3 import Phi3
from vtcore.models.qwen2 import Qwen2
from vtcore.models.smollm3 import SmolLM3


def read(cls=Llama, length=None, **changes):
    raw = {n: v for n, v in (CONFIG | changes).items() if v != "absent"}
    return cls.read_config(cls.filled(raw), length)


def test_the_numbers_arrive():
    c = read()
    assert (c.layers, c.hidden, c.heads, c.kv_heads, c.head_dim, c.vocab) == (2, 32, 4, 2, 8, 300)
    assert (c.eps, c.scale, c.tied, c.act, c.window, c.context) == (1e-5, 8**-0.5, False, "silu", 0, 128)
    assert c.kinds == ("full_attention",) * 2
    assert c.layer(1).rope["rope_theta"] == 10000.0


def test_what_is_absent_has_the_value_that_transformers_gives_it():
    assert read(num_key_value_heads="absent", head_dim="absent").kv_heads == 4
    assert read(rms_norm_eps="absent").eps == 1e-6
    assert read(Gemma, head_dim="absent").head_dim == 256
    assert read(Gemma, tie_word_embeddings="absent").tied
    sparse = {"hidden_size": 64, "num_hidden_layers": 12, "sliding_window": 16}
    c = Gemma3.read_config(Gemma3.defaults | sparse)
    assert (c.heads, c.kv_heads, c.head_dim, c.tied, c.cap, c.scale) == (8, 4, 256, True, 0.0, 1 / 16)
    assert [i for i, k in enumerate(c.kinds) if k == "full_attention"] == [5, 11]
    assert (c.layer(0).rope["rope_theta"], c.layer(5).rope["rope_theta"]) == (1e4, 1e6)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"rope_theta": 5e5}, {"rope_type": "default", "rope_theta": 5e5}),
        ({"rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 4.0}}, {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}),
        ({"rope_theta": 1e4, "partial_rotary_factor": 0.5}, {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}),
        ({"rope_theta": 1e4, "rope_scaling": None}, {"rope_theta": 1e4}),
        (
            {"rope_theta": 1e4, "rope_scaling": {"rope_type": "su", "short_factor": [1] * 4, "long_factor": [2] * 4}},
            {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1] * 4, "long_factor": [2] * 4},
        ),
    ],
)
def test_both_spellings_of_rope_are_one(old, new):
    assert read(**old).ropes == read(rope_theta="absent", rope_parameters=new).ropes


def test_gemma_3_has_two_ropes_in_either_spelling():
    linear = {"rope_type": "linear", "factor": 8.0}
    old = read(Gemma3, rope_theta=1e6, rope_local_base_freq=1e4, rope_scaling=linear)
    nested = {"full_attention": linear | {"rope_theta": 1e6}, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}
    new = read(Gemma3, rope_theta="absent", rope_parameters=nested)
    assert old.ropes == new.ropes
    assert old.ropes["sliding_attention"]["rope_type"] == "default"


def test_the_trained_length_beside_the_rope_counts():
    """Phi 3 keeps it outside rope_scaling."""
    scaling = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
    c = read(Phi3, original_max_position_embeddings=32, rope_scaling=scaling)
    assert c.ropes[""]["original_max_position_embeddings"] == 32


@pytest.mark.parametrize(
    ("scaling", "context"),
    [
        ({"rope_type": "linear", "factor": 4.0}, 512),
        ({"rope_type": "dynamic", "factor": 2.0}, 256),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}, 256),
        ({"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 64}, 128),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 16}, 128),
    ],
)
def test_a_rope_that_stretches_lengthens_the_context(scaling, context):
    assert read(rope_scaling=scaling).context == context
    assert read(rope_scaling=scaling).max_model_len == context
    assert read(rope_scaling=scaling, length=99).max_model_len == 99


def test_windows():
    assert read(sliding_window=16).layer(0).window == 0  # Llama has none, whatever stands there
    assert [read(Mistral, sliding_window=16).layer(i).window for i in (0, 1)] == [16, 16]
    assert read(Mistral, sliding_window=None).kinds == ("full_attention",) * 2
    assert read(Qwen2, sliding_window=16).layer(0).window == 0
    late = read(Qwen2, sliding_window=16, use_sliding_window=True, max_window_layers=1)
    assert [late.layer(i).window for i in (0, 1)] == [0, 16]
    assert [read(Gemma2, sliding_window=16).layer(i).window for i in (0, 1)] == [16, 0]
    listed = read(Gemma2, sliding_window=16, layer_types=["full_attention", "sliding_attention"])
    assert [listed.layer(i).window for i in (0, 1)] == [0, 16]
    assert read(Phi3, sliding_window=16).layer(1).window == 16


def test_biases_that_must_be_there():
    assert read().biased == frozenset()
    assert read(attention_bias=True).biased == {"q_proj", "k_proj", "v_proj", "o_proj"}
    assert read(Qwen2).biased == {"q_proj", "k_proj", "v_proj"}
    assert read(mlp_bias=True).biased == {"gate_proj", "up_proj", "down_proj"}


def test_the_first_gemma_means_the_other_gelu():
    assert read(Gemma, hidden_act="gelu").act == "gelu_pytorch_tanh"
    assert read(Gemma2, hidden_act="gelu", hidden_activation="gelu_pytorch_tanh").act == "gelu_pytorch_tanh"
    assert read(hidden_act="gelu").act == "gelu"


def test_layers_that_do_not_turn():
    def turning(**changes):
        c = read(SmolLM3, num_hidden_layers=8, **changes)
        weightless = SmolLM3(c, None)
        return [weightless.layer_config(i).rope is not None for i in range(8)]

    assert turning() == [True, True, True, False] * 2
    assert turning(no_rope_layer_interval=2) == [True, False] * 4
    assert turning(no_rope_layers=[0, 1] * 4) == [False, True] * 4


REFUSED = [
    ({"num_hidden_layers": "absent"}, "has no num_hidden_layers or n_layer; it must be a whole number from 1 to 1024"),
    ({"num_hidden_layers": 0}, "num_hidden_layers is 0; it must be a whole number from 1 to 1024"),
    ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000"),
    ({"hidden_size": -64}, "hidden_size is -64"),
    ({"hidden_size": 2**40}, "hidden_size is 1099511627776; it must be a whole number from 1 to 1048576"),
    ({"hidden_size": "64"}, "hidden_size is '64'"),
    ({"hidden_size": 32.5}, "hidden_size is 32.5"),
    ({"hidden_size": True}, "hidden_size is True"),
    ({"hidden_size": [64]}, "hidden_size is [64] (1 entries); it must be a whole number"),
    (
        {"num_attention_heads": 6, "num_key_value_heads": 4},
        "num_attention_heads is 6 and num_key_value_heads is 4; the first must be a multiple",
    ),
    ({"num_attention_heads": 0}, "num_attention_heads is 0"),
    (
        {"num_attention_heads": 5, "num_key_value_heads": 5, "head_dim": "absent"},
        "hidden_size is 32, which num_attention_heads 5 does not divide",
    ),
    ({"head_dim": 0}, "head_dim is 0"),
    ({"vocab_size": -1}, "vocab_size is -1"),
    ({"rms_norm_eps": float("nan")}, "rms_norm_eps is nan"),
    ({"rms_norm_eps": float("inf")}, "rms_norm_eps is inf"),
    ({"rms_norm_eps": -1e-5}, "rms_norm_eps is -1e-05"),
    ({"max_position_embeddings": 0}, "max_position_embeddings is 0"),
    ({"max_position_embeddings": 2**40}, "max_position_embeddings is 1099511627776"),
    ({"tie_word_embeddings": "yes"}, "tie_word_embeddings is 'yes'; it must be true or false"),
    ({"hidden_act": "mish"}, "hidden_act is 'mish'; it must be one of gelu"),
    ({"layer_types": ["full_attention"]}, "layer_types is ['full_attention'] (1 entries); it must be a list of 2 words"),
    ({"layer_types": ["full_attention", "odd_attention"]}, "layer_types is 'odd_attention'; it must be made of"),
    ({"layer_types": [[], None]}, "layer_types is []"),
    ({"layer_types": "full_attention"}, "layer_types is 'full_attention'; it must be a list of 2 words"),
    ({"attention_bias": 1}, "attention_bias is 1; it must be true or false"),
    ({"rope_scaling": "linear"}, "rope_scaling is 'linear'; it must be an object"),
    ({"rope_scaling": {"rope_type": "linear", "factor": -1}}, "factor is -1"),
    ({"rope_scaling": {"factor": 8.0}}, "a rope has factor 8.0 and no rope_type that uses one"),
    ({"rope_scaling": []}, "rope_scaling is [] (0 entries); it must be an object"),
    ({"rope_parameters": ""}, "rope_parameters is ''; it must be an object"),
    ({"rope_parameters": {"ful_attention": {"rope_theta": 1e4}}}, "wrong is 'ful_attention', which is no kind of layer"),
    ({"rope_parameters": {"sliding_attention": {}}}, "wrong is 'full_attention', which is no kind of layer or is not there"),
    ({"rope_parameters": {"rope_theta": {}}}, "wrong is 'rope_theta'"),
    ({"original_max_position_embeddings": "many"}, "original_max_position_embeddings is 'many'"),
    ({"embedding_multiplier": "12"}, "embedding_multiplier is '12'"),
    ({"no_rope_layers": [1]}, "no_rope_layers is [1] (1 entries); it must be a list of 2 zeros and ones"),
    ({"intermediate_size": 0}, "intermediate_size is 0"),
    ({"moe_layers": 3}, "moe_layers is 3; it must be a list of whole numbers"),
    ({"mlp_only_layers": ["x"]}, "mlp_only_layers is ['x']"),
    ({"per_layer_config": {"7": {}}}, "per_layer_config has '7'"),
]


@pytest.mark.parametrize(("changes", "words"), REFUSED)
def test_what_is_refused(changes, words):
    with pytest.raises(ConfigError) as e:
        read(**changes)
    assert words in str(e.value)
    assert "config.json" in str(e.value) or "rope" in str(e.value)


@pytest.mark.parametrize("length", [0, -1, 2**31])
def test_a_served_length_that_is_none(length):
    with pytest.raises(ConfigError, match="max_model_len is"):
        read(length=length)


def test_null_is_the_family_s_value_unless_it_says_none():
    plain = {"rope_theta": None, "rms_norm_eps": None, "use_sliding_window": None}
    assert read(**plain).ropes[""]["rope_theta"] == 10000
    assert read(**plain).eps == 1e-6
    assert read(Gemma2, attn_logit_softcapping=None).cap == 0
    assert read(Mistral).layer(0).window == 4096
    assert read(Mistral, sliding_window=None).layer(0).window == 0
    assert not read(rope_parameters={"full_attention": None, "sliding_attention": {}}).layer(0).rope


def test_a_window_of_zero_is_none():
    assert read(Mistral, sliding_window=0).layer(0).window == 0


def test_what_only_one_family_has_is_missed_by_name():
    with pytest.raises(ConfigError, match="no 'logit_scale', and this architecture"):
        _ = read().logit_scale


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5), lambda v: st.lists(v, max_size=3), max_leaves=4
)


KEYS = [*CONFIG, "layer_types", "rope_scaling", "rope_parameters", "sliding_window", "moe_layers", "per_layer_config", "no_rope_layers"]


@given(st.sampled_from(KEYS), values)
def test_any_value_anywhere_is_read_or_refused(key, value):
    try:
        c = ModelConfig.from_hf(Llama.defaults | CONFIG | {key: value})
    except ConfigError:
        return
    assert c.layers == len(c.kinds)
    assert c.heads % c.kv_heads == 0


@pytest.mark.parametrize("key", ["rms_norm_eps", "hidden_size", "num_hidden_layers", "query_pre_attn_scalar", "final_logit_softcapping"])
def test_whole_numbers_of_hundreds_of_digits_are_refused(key):
    with pytest.raises(ConfigError, match=f"{key} is 1000000.*; it must be") as error:
        read(**{key: 10**400})
    assert len(str(error.value)) < 300
