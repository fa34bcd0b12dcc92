"""What the gate says of answers that are right, nearly right and wrong."""

from dataclasses import replace

import pytest

from vtcore.conformance.gate import Outcome, Way, answer, check, judge, load
from vtcore.conformance.golden import FOLDER, Golden

GOLDEN = Golden.load(FOLDER / "llama.json")


@pytest.fixture(scope="module")
def requests():
    return answer(load(GOLDEN), GOLDEN)


def changed(position, margin):
    """The golden with another token at a place of its second answer, of which it was so sure."""
    case = GOLDEN.cases[1]
    tokens, margins = list(case.tokens), list(case.margins)
    tokens[position], margins[position] = tokens[position] ^ 1, margin
    cases = (GOLDEN.cases[0], replace(case, tokens=tokens, margins=margins), *GOLDEN.cases[2:])
    return replace(GOLDEN, cases=cases)


def test_exact(requests):
    verdict = judge(GOLDEN, requests)
    assert (verdict.outcome, verdict.matched, verdict.tokens, verdict.passed) == (Outcome.EXACT, 128, 128, True)
    assert str(verdict).startswith("llama batched: exact, 128/128 tokens, logits within ")


def test_a_near_tie_is_told_from_a_divergence(requests):
    near, far = judge(changed(5, 1.9e-4), requests), judge(changed(5, 2.1e-4), requests)
    assert (near.outcome, far.outcome) == (Outcome.NEAR_TIE, Outcome.DIVERGED)
    assert not near.passed
    assert not far.passed
    assert (far.parting.case, far.parting.position, far.parting.got) == (1, 5, GOLDEN.cases[1].tokens[5])
    assert "prompt 1, token 5" in str(far)
    assert "which stands 0.00021 above the next" in str(far)


def test_rows_after_a_parting_are_not_judged(requests):
    golden = changed(5, 1.0)
    case = golden.cases[1]
    beyond, before = case.probes.copy(), case.probes.copy()
    beyond[len(case.prompt) + 5] += 1.0
    before[len(case.prompt) + 4] += 1.0
    errors = [judge(replace(golden, cases=(replace(case, probes=p),)), requests[1:2]).error for p in (beyond, before)]
    assert errors[0] == judge(replace(golden, cases=(case,)), requests[1:2]).error
    assert errors[1] > 0.9


def test_right_tokens_with_wrong_logits_do_not_pass(requests):
    strict = judge(replace(GOLDEN, tolerance=1e-9), requests)
    assert strict.outcome is Outcome.EXACT
    assert not strict.passed
    assert "(allowed: 1e-09)" in str(strict)


def test_check_runs_each_way():
    verdicts = check(Golden.load(FOLDER / "llama_rope_dynamic.json"))
    assert [v.way for v in verdicts] == list(Way)
    assert all(v.passed for v in verdicts)
