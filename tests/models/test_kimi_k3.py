"""Kimi K3 against a forward in NumPy; no oracle knows it."""

import json
import re

import numpy as np
import pytest

from tests.conformance.test_rules import assert_same_bits
from tests.models.kimi_k3_witness import CONFIG, LINEAR, ROOT, TEXT, VOCAB, Witness, checkpoint
from tests.writers import write_safetensors
from vtcore.conformance.runner import Request, Runner
from vtcore.dispatch import Dispatcher
from vtcore.errors import ConfigError, TensorNamesError
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.models.kimi_k3 import KimiK3
from vtcore.models.load import load_model
from vtcore.providers import chain

PROMPTS = [np.random.default_rng(i).integers(0, VOCAB, n).tolist() for i, n in enumerate((1, 5, 21))]
WANTED = 12


def load(path, text=TEXT, weights=None):
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(CONFIG | {"text_config": text}))
    write_safetensors(path / "model.safetensors", checkpoint() if weights is None else weights)
    return load_model(open_checkpoint(path))


def run(model, providers, budget=10**9, together=True):
    requests = [Request(p, WANTED) for p in PROMPTS]
    for some in [requests] if together else [[r] for r in requests]:
        Runner(model, Dispatcher(providers, strict=bool(providers)), budget).run(some)
    return requests


def held(requests, witness):
    """The witness reads the whole sequence at once; its rows are those of the prefill and of each decoded token."""
    for r in requests:
        want = witness.logits(r.tokens[:-1])
        np.testing.assert_allclose(r.rows, want, rtol=0, atol=1e-5)
        assert r.answer == want[r.prompt - 1 :].argmax(-1).tolist()


def test_logits_and_tokens(tmp_path):
    model, witness = load(tmp_path), Witness(checkpoint())
    held(run(model, ()), witness)
    batched = run(model, chain("portable"))
    held(batched, witness)
    assert_same_bits(batched, run(model, chain("portable"), budget=4))
    assert_same_bits(batched, run(model, chain("portable"), together=False))
    assert model.weights.unread() == []
    assert list(model.weights.notes) == ["2 tensors of other parts are not read: mm_projector, vision_tower"]


@pytest.mark.parametrize(
    "change",
    [
        {"attn_res_block_size": 3},
        {"attn_res_block_size": 1},
        {"activation_situ_beta": 1.5, "activation_situ_linear_beta": 2.0},
        {"routed_scaling_factor": 0.6},
        {"first_k_dense_replace": 2},
        {"linear_attn_config": LINEAR | {"gate_lower_bound": -1.0}},
    ],
)
def test_numbers_that_the_forward_reads(change, tmp_path):
    text = TEXT | change
    weights = checkpoint(text)
    held(run(load(tmp_path, text, weights), chain("portable")), Witness(weights, text))


def test_what_is_missing_is_named(tmp_path):
    weights = checkpoint()
    gone = [f"{ROOT}layers.{n}.weight" for n in ("2.self_attn.g_proj", "1.mlp_res_proj", "1.block_sparse_moe.experts.4.w3")]
    with pytest.raises(TensorNamesError) as error:
        load(tmp_path, weights={n: a for n, a in weights.items() if n not in gone})
    assert all(name in str(error.value) for name in gone)


def test_what_is_too_much_is_named(tmp_path):
    more = f"{ROOT}layers.1.self_attn.z_proj.weight"
    with pytest.raises(TensorNamesError, match=f"1 that KimiK3 does not read: {re.escape(more)}"):
        load(tmp_path, weights=checkpoint() | {more: np.ones((3, 3), np.float32)})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"attn_res_block_size": None}, "has no attn_res_block_size"),
        ({"attn_res_block_size": 0}, "attn_res_block_size is 0"),
        ({"hidden_act": "silu"}, "activation 'silu' is not one that KimiK3 can have; it can have situ"),
        ({"activation_situ_beta": 0.0}, "activation_situ_beta is 0.0; it must be a number above 0"),
        ({"mla_use_nope": False}, "mla_use_nope is False; KimiK3 is written for True alone"),
        ({"mla_use_output_gate": 1}, "mla_use_output_gate is 1"),
        ({"routed_expert_hidden_size": "half"}, "routed_expert_hidden_size is 'half'"),
        ({"linear_attn_config": LINEAR | {"gate_lower_bound": None}}, "linear_attn_config has no gate_lower_bound"),
        ({"linear_attn_config": LINEAR | {"gate_lower_bound": 1.0}}, "gate_lower_bound is 1.0; it must be a number from -1e+06 to 0"),
        ({"linear_attn_config": LINEAR | {"use_full_rank_gate": "yes"}}, "use_full_rank_gate is 'yes'"),
    ],
)
def test_what_is_refused(change, words, tmp_path):
    with pytest.raises(ConfigError, match=re.escape(words)):
        load(tmp_path, TEXT | change)


def test_the_released_numbers():
    """Those of the 2.8T model: 93 layers, of which 24 attend."""
    full = [*range(4, 93, 4), 93]
    linear = {"num_heads": 96, "head_dim": 128, "short_conv_kernel_size": 4, "use_full_rank_gate": True, "gate_lower_bound": -5.0}
    text = TEXT | {
        "hidden_size": 7168, "intermediate_size": 33792, "num_hidden_layers": 93, "num_attention_heads": 96, "num_key_value_heads": 96,
        "vocab_size": 163840, "num_experts": 896, "num_experts_per_token": 16, "moe_intermediate_size": 3072, "q_lora_rank": 1536,
        "routed_expert_hidden_size": 3584, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "attn_res_block_size": 12, "max_position_embeddings": 1048576, "num_nextn_predict_layers": 0,
        "linear_attn_config": linear | {"full_attn_layers": full, "kda_layers": [i for i in range(1, 94) if i not in full]},
    }  # fmt: skip
    c = KimiK3.read_config(KimiK3.defaults | text)
    assert [i + 1 for i, kind in enumerate(c.kinds) if kind == "full_attention"] == full
    assert (c.mlp_kinds[0], set(c.mlp_kinds[1:])) == ("dense", {"sparse"})
    assert (c.head_dim, c.scale, c.num_experts_per_tok, c.linear_head_dim, c.context) == (192, 192**-0.5, 16, 128, 1048576)


def test_that_no_oracle_gates_it_is_said():
    assert "not against an oracle" in KimiK3.ungated
