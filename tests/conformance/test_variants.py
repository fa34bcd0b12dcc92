"""Every architecture's second network: another seed, and other numbers in config.json wherever they matter. All tokens and logits again."""

import pytest

from tests.conformance.gated import EXACT, name_of
from vtcore.conformance.gate import answer, judge, load
from vtcore.providers import chain

VARIED = [g.variant for g in EXACT if g.variant]


@pytest.mark.parametrize("golden", VARIED, ids=name_of)
def test_the_default_providers(golden):
    verdict = judge(golden, answer(load(golden), golden, chain(None)))
    assert verdict.passed, str(verdict)


def test_every_architecture_has_one():
    """`python tools/record_goldens.py --variants NAME` records it."""
    assert {g.architecture for g in VARIED} == {g.architecture for g in EXACT}


@pytest.mark.parametrize("golden", VARIED, ids=name_of)
def test_what_is_changed_matters(golden):
    """To transformers, with the same weights: by five times what a logit may be off; or it changes the tensors (None)."""
    assert all(moved is None or moved >= 5 * golden.tolerance for moved in golden.seen.values())
    assert len(golden.seen) >= 2
    assert [len(c.prompt) for c in golden.cases] == [5, 40]
    assert all(len(c.tokens) == 24 and min(c.margins) >= 2e-3 * 0.99 for c in golden.cases)
