"""A golden must notice a wrong number: each number of each config is changed, and the logits must leave their bounds."""

import copy
from dataclasses import replace

import pytest

from tests.conformance.gated import EXACT, name_of
from vtcore.conformance.gate import answer, judge, load
from vtcore.errors import VtcoreError
from vtcore.providers import chain

TRAINING = {
    "attention_dropout",
    "initializer_range",
    "init_std",
    "classifier_dropout",
    "summary_first_dropout",
    "embedding_fraction",
    "router_aux_loss_coef",
}
TRAINING |= {"time_step_min", "time_step_max", "time_step_floor", "time_step_scale"}  # what biases and rates are drawn by
TRAINING |= {"altup_coef_clip"}
TOWERS = {"vision_config"}  # what is not read
TRAINING |= {"linear_a_log_max", "linear_dt_min", "linear_dt_max", "linear_dt_init_floor"}
BLIND = {  # what a golden can't see, and why
    ("lfm2", "block_ffn_dim_multiplier"): "the weights say how wide they are",
    ("nemotron_h", "routed_scaling_factor"): "it has no experts",
    ("granite_moe_hybrid", "rope_parameters/rope_theta"): "position_embedding_type is not rope",
    ("granite_hybrid_dense", "rope_parameters/rope_theta"): "position_embedding_type is not rope",
    ("internlm3", "rope_parameters/factor"): "counts from 512 tokens on",
    ("llama_rope_alpha", "rope_parameters/factor"): "alpha stands for it",
    ("hunyuan", "rope_parameters/factor"): "alpha stands for it",
    ("hunyuan", "rope_parameters/mscale"): "yarn's, beside alpha",
    ("hunyuan_moe", "rope_parameters/factor"): "alpha stands for it",
    ("hunyuan_moe", "rope_parameters/mscale"): "yarn's, beside alpha",
    ("ernie4_5_moe", "moe_norm_min"): "a sum of weights is not so small",
    ("laguna", "rope_parameters/full_attention/beta_slow"): "no frequency lies between the two",
    ("ministral3", "rope_parameters/beta_fast"): "no frequency turns so often in 16 tokens",
    ("ministral3", "rope_parameters/beta_slow"): "no frequency lies between the two",
    ("deepseek_v4", "hc_eps"): "a millionth beside ones",
    **{("deepseek_v4", n): "rope_parameters says it" for n in ("rope_theta", "compress_rope_theta", "partial_rotary_factor")},
    ("olmo3", "rope_parameters/full_attention/beta_fast"): "no frequency turns so often in 1024 tokens",
}


def numbers(config, path=()):
    """Every float of a config, and the window: (path, value)."""
    for name, value in config.items():
        if isinstance(value, dict) and name not in TOWERS:
            yield from numbers(value, (*path, name))
        elif (isinstance(value, float) or name == "sliding_window") and value and name not in TRAINING:
            yield (*path, name), value


def changed(config, path, value):
    out = copy.deepcopy(config)
    inner = out
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return out


def prefill(golden):
    """The golden cut down to its two longer prompts."""
    cut = [
        replace(c, tokens=c.tokens[:1], margins=c.margins[:1], top=c.top[:1], probes=c.probes[: len(c.prompt)]) for c in golden.cases[2:]
    ]
    return replace(golden, cases=tuple(cut))


@pytest.mark.parametrize("golden", EXACT, ids=name_of)
def test_each_number_of_a_config_is_seen(golden):
    golden, unseen = prefill(golden), set()
    for path, value in numbers(golden.config):
        other = replace(golden, config=changed(golden.config, path, value * 4))
        try:
            verdict = judge(golden, answer(load(other), golden, chain("portable")))
        except VtcoreError:  # refused is seen
            continue
        if verdict.error <= 2 * golden.tolerance:
            unseen.add((golden.name, "/".join(path)))
    assert unseen == {key for key in BLIND if key[0] == golden.name}
