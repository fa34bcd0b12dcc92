"""The text model within a checkpoint for several media: whose it is, where its numbers and tensors are, and what is set aside."""

import json

import numpy as np
import pytest

from tests.models.rand import CONFIG, load, logits, tensors
from tests.writers import write_safetensors
from vtcore.conformance.golden import FOLDER, Golden
from vtcore.errors import ConfigError, TensorNamesError
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.models.load import load_model
from vtcore.models.registry import ARCHITECTURES, find, load_all
from vtcore.models.wrappers import WRAPPERS, Wrapped, text_config

LLAVA = ["LlavaForConditionalGeneration"]
PROMPT = [5, 9, 200]
TOWER = {"vision_tower.patch.weight": np.zeros((2, 2), np.float32)}
TEXT = {n: v for n, v in CONFIG.items() if n != "architectures"} | {"model_type": "llama"}


def moved(root, head):
    """RAND's tensors under other names."""
    names = {n: root + n.removeprefix("model.") if n.startswith("model.") else head + n for n in tensors()}
    return {names[n]: a for n, a in tensors().items()}


@pytest.mark.parametrize(
    ("root", "head"),
    [("language_model.model.", "language_model."), ("model.language_model.", ""), ("model.text_model.", ""), ("model.", "")],
)
def test_every_place_of_the_text_model_is_known(root, head, tmp_path):
    config = {"architectures": LLAVA, "vision_config": {"depth": 1}, "text_config": TEXT}
    model = load(tmp_path / "whole", config, moved(root, head) | TOWER)
    np.testing.assert_array_equal(logits(model, PROMPT), logits(load(tmp_path / "text"), PROMPT))
    assert list(model.weights.notes) == ["1 tensors of other parts are not read: vision_tower"]


@pytest.mark.parametrize("root", ["language_model.model.", "model.language_model.", "model.text_model.", "model."])
def test_what_is_odd_within_the_text_model_is_listed(root, tmp_path):
    config = {"architectures": LLAVA, "vision_config": {"depth": 1}, "text_config": TEXT}
    weights = moved(root, "") | {f"{root}layers.0.extra.weight": np.zeros(2, np.float32)}
    with pytest.raises(TensorNamesError, match=rf"1 that Llama does not read: {root}layers\.0\.extra\.weight"):
        load(tmp_path, config, weights)


def test_without_a_tower_in_the_config_nothing_is_set_aside(tmp_path):
    with pytest.raises(TensorNamesError, match=r"1 that Llama does not read: vision_tower\.patch\.weight"):
        load(tmp_path, None, tensors() | TOWER)


def test_the_first_qwen_vl_has_no_part_for_text(tmp_path):
    """Its numbers stand at the top, with the positions' three axes in rope_scaling."""
    biases = {
        f"model.layers.{i}.self_attn.{p}_proj.bias": np.ones(n, np.float32)
        for i in range(2)
        for p, n in zip("qkv", (32, 16, 16), strict=True)
    }
    turned = {"type": "mrope", "mrope_section": [1, 1, 2]}
    own = CONFIG | {"architectures": ["Qwen2VLForConditionalGeneration"], "vision_config": {"depth": 1}, "rope_scaling": turned}
    tower = {"visual.patch_embed.proj.weight": np.zeros(2, np.float32)}
    model = load(tmp_path / "whole", own, tensors() | biases | tower)
    assert model.ropes["full_attention"].rope.axes.tolist() == [0, 1, 2, 2]
    alone = load(tmp_path / "text", CONFIG | {"architectures": ["Qwen2ForCausalLM"]}, tensors() | biases)
    np.testing.assert_array_equal(logits(model, PROMPT), logits(alone, PROMPT))


def test_the_text_parts_type_says_which_model_it_is():
    load_all()
    known = {
        "llama": "Llama",
        "qwen3_5_moe_text": "Qwen3_5Moe",
        "gemma3_text": "Gemma3",
        "kimi_k2": "DeepseekV3",
        "deepseek_v3": "DeepseekV3",
    }
    for kind, name in known.items():
        assert Wrapped.variant({"model_type": kind}) is find([f"{name}ForCausalLM"], ARCHITECTURES)
    for kind in (None, 3, "llava", "x" * 1000):
        with pytest.raises(ConfigError, match=r"text_config's model_type is .*; it must be one of apertus, ") as e:
            Wrapped.variant({"model_type": kind})
        assert len(str(e.value)) < 2000


def test_every_wrapper_of_one_family_is_registered_for_it():
    load_all()
    assert all(ARCHITECTURES[name] is cls for cls, names in WRAPPERS.items() for name in names)


def test_numbers_that_old_configs_leave_out():
    """LLaVA 1.5 says of a text model of 7 billion weights no more than this."""
    said = {"architectures": LLAVA, "text_config": {"model_type": "llama", "vocab_size": 32064}, "tie_word_embeddings": False}
    made = text_config(said, "config.json")
    assert (made["hidden_size"], made["num_hidden_layers"], made["vocab_size"]) == (4096, 32, 32064)
    assert text_config(said | {"text_config": {"hidden_size": 5120}}, "config.json").keys() & {"num_hidden_layers"} == set()
    assert text_config(said | {"text_config": {"tie_word_embeddings": True}}, "config.json")["tie_word_embeddings"] is False
    with pytest.raises(ConfigError, match="text_config is 'llama'; it must be an object"):
        text_config({"text_config": "llama"}, "config.json")


def test_experts_may_be_stored_either_way_round(tmp_path):
    golden = Golden.load(FOLDER / "qwen3_vl_moe.json")
    turned = {n: np.ascontiguousarray(a.swapaxes(1, 2)) if "experts" in n else a for n, a in golden.weights().items()}
    (tmp_path / "config.json").write_text(json.dumps(golden.config))
    write_safetensors(tmp_path / "model.safetensors", turned)
    model, usual = load_model(open_checkpoint(tmp_path)), load_model(open_checkpoint(golden.write_safetensors(tmp_path / "usual")))
    np.testing.assert_array_equal(logits(model, PROMPT), logits(usual, PROMPT))
