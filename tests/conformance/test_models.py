"""Every architecture against its goldens: all tokens, every recorded logit, and the same bits however its prompts are run."""

from dataclasses import replace

import numpy as np
import pytest

from tests.conformance.gated import ALIASES, EXACT, GOLDENS, ONE_EACH, UNGATED, golden_of, name_of
from tests.conformance.test_rules import assert_same_bits
from vtcore.conformance.gate import Outcome, Way, answer, judge, load
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.models.load import identify, load_model
from vtcore.models.registry import ARCHITECTURES
from vtcore.models.rope import make_rope
from vtcore.providers import chain

every = pytest.mark.parametrize("golden", GOLDENS, ids=name_of)


@every
def test_the_definitions(golden):
    verdict = judge(golden, answer(load(golden), golden))
    assert verdict.passed, str(verdict)


@every
def test_the_default_providers(golden):
    model, runs = load(golden), {}
    for way in Way:
        runs[way] = answer(model, golden, chain(None), way)
        verdict = judge(golden, runs[way], way)
        assert verdict.passed, str(verdict)
    for way in (Way.CHUNKED, Way.ALONE):
        assert_same_bits(runs[Way.BATCHED], runs[way])


@pytest.mark.parametrize("golden", ONE_EACH, ids=name_of)
def test_the_definitions_give_the_same_bits_each_way(golden):
    short = replace(golden, cases=tuple(replace(c, tokens=c.tokens[:3]) for c in golden.cases))
    batched, *others = (answer(load(golden), short, (), way) for way in Way)
    for other in others:
        assert_same_bits(batched, other)


def test_every_registered_architecture_has_a_golden():
    ours = {name: cls for name, cls in ARCHITECTURES.items() if cls.__module__.startswith("vtcore.models")}
    recorded = {g.architecture for g in GOLDENS}
    assert set(ours) - recorded == ALIASES | UNGATED.keys()
    assert {name for name, cls in ours.items() if cls.ungated} == UNGATED.keys()
    assert {ours[n] for n in ALIASES} <= {ours[n] for n in recorded}


@pytest.mark.parametrize("golden", [g for g in EXACT if g.older], ids=name_of)
def test_both_spellings_of_a_config_are_one(golden, tmp_path):
    new, old = (
        identify(open_checkpoint(golden.write_safetensors(tmp_path / str(older), older=older)), golden.max_model_len).config
        for older in (False, True)
    )
    assert replace(new, rest={}, ropes={}) == replace(old, rest={}, ropes={})
    for i in range(new.layers):
        a, b = new.layer(i), old.layer(i)
        assert (a.rope is None) == (b.rope is None)
        if a.rope is not None:
            one, other = (make_rope(c.rope, c.rope_dim or c.head_dim) for c in (a, b))
            np.testing.assert_array_equal(one.frequencies, other.frequencies)
            assert (one.scale, one.dynamic) == (other.scale, other.dynamic)


@pytest.mark.parametrize("golden", ONE_EACH, ids=name_of)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_stored_dtype_changes_no_bit(golden, dtype, tmp_path):
    short = replace(golden, cases=tuple(replace(c, tokens=c.tokens[:2]) for c in golden.cases))
    stored = open_checkpoint(golden.write_safetensors(tmp_path, dtype=dtype, shards=2))
    assert {str(t.dtype) for t in stored.tensors.values()} - {"int64"} == {dtype}
    half = load_model(stored, max_model_len=golden.max_model_len)
    for providers in ("reference", "portable"):
        assert_same_bits(answer(load(golden), short, chain(providers)), answer(half, short, chain(providers)))


def test_which_longrope_factors_serve_is_decided_by_the_longest_sequence_served():
    golden = golden_of("phi3_longrope_short")
    assert judge(golden, answer(load(golden), golden)).passed
    longer = replace(golden, max_model_len=129)
    assert judge(golden, answer(load(longer), golden)).outcome is Outcome.DIVERGED
