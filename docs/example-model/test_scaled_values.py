"""Values that are doubled are what a Llama gives whose v_proj is doubled: a power of two changes no other bit."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from vtcore import LLM, SamplingParams

HIDDEN, INNER, VOCAB, LAYERS = 32, 64, 100, 2
SHAPES = {
    **{f"self_attn.{n}_proj": (HIDDEN, HIDDEN) for n in "qo"},
    **{f"self_attn.{n}_proj": (HIDDEN // 2, HIDDEN) for n in "kv"},
    **{f"mlp.{n}_proj": (INNER, HIDDEN) for n in ("gate", "up")},
    "mlp.down_proj": (HIDDEN, INNER),
}
TOKENS = [1, 2, 3, 50]


def checkpoint(path, name, v=1.0, **numbers):
    """A tiny model of random numbers, whose v_proj is multiplied by `v`."""
    config = {"architectures": [name], "hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": LAYERS}
    config |= {"num_attention_heads": 4, "num_key_value_heads": 2, "hidden_act": "silu", "vocab_size": VOCAB}
    config |= {"max_position_embeddings": 128, "tie_word_embeddings": True, **numbers}
    rng = np.random.default_rng(0)
    tensors = {
        "model.embed_tokens.weight": rng.standard_normal((VOCAB, HIDDEN), np.float32),
        "model.norm.weight": np.ones(HIDDEN, np.float32),
    }
    for i in range(LAYERS):
        for part, shape in SHAPES.items():
            factor = np.float32(v if "v_proj" in part else 1)
            tensors[f"model.layers.{i}.{part}.weight"] = rng.standard_normal(shape, np.float32) / 8 * factor
        tensors |= {f"model.layers.{i}.{n}.weight": np.ones(HIDDEN, np.float32) for n in ("input_layernorm", "post_attention_layernorm")}
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    save_file(tensors, path / "model.safetensors")
    return path


@pytest.mark.parametrize(("numbers", "v"), [({}, 1.0), ({"value_scale": 2.0}, 2.0), ({"value_scale": 0.25}, 0.25)])
def test_it_is_a_llama_of_other_weights(tmp_path, numbers, v):
    ours, llama = checkpoint(tmp_path / "ours", "ScaledValuesForCausalLM", **numbers), checkpoint(tmp_path / "llama", "LlamaForCausalLM", v)
    np.testing.assert_array_equal(LLM(ours).logits(TOKENS), LLM(llama).logits(TOKENS))


def test_it_generates_without_a_fallback(tmp_path):
    with LLM(checkpoint(tmp_path / "ours", "ScaledValuesForCausalLM", value_scale=3.0), strict=True) as llm:
        [output] = llm.generate([TOKENS], SamplingParams(temperature=0.0, max_tokens=4, ignore_eos=True))
        assert len(output.outputs[0].token_ids) == 4
        assert {r.provider for r in llm.report().ran} == {"portable"}
