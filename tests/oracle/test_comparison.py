"""Verdicts: exact, near ties, divergence, and what could not be compared."""

from dataclasses import replace

import numpy as np
import pytest

from vtcore.conformance.golden import FOLDER, Golden
from vtcore.errors import ArgumentError
from vtcore.oracle.comparison import compare, judge
from vtcore.oracle.engines.recording import RecordedEngine
from vtcore.oracle.engines.vtcore import VtcoreEngine
from vtcore.oracle.followed import Followed, NotComparedError, Said, likeliest, log_softmax
from vtcore.oracle.recording import Answer, ModelFacts, Recording
from vtcore.oracle.verdict import ARITHMETIC, Kind, Outcome, Tolerances

LIMITS = Tolerances(near_tie=0.2, logprob=0.1, hidden=1e-3)


def answer_of(*rows, hidden=None):
    """An answer whose tokens and alternatives are given as {id: logprob}, likeliest first."""
    ids = np.array([list(r) for r in rows], np.int32)
    logprobs = np.array([list(r.values()) for r in rows], np.float32)
    return Answer("1", "hi", True, (7, 8), tuple(ids[:, 0].tolist()), ids, logprobs, "length", hidden)


ANSWER = answer_of({0: -0.5, 1: -0.6, 2: -9.0}, {3: -0.1, 4: -2.5, 5: -3.0})
FACTS = ModelFacts("tiny", "Llama", 16, {}, None, (15,))
RECORDING = Recording(FACTS, {"name": "vtcore"}, (ANSWER,), {0: b"zero", 1: b"one"})


def judged(*said, limits=LIMITS, **options):
    return judge(RECORDING, ANSWER, Followed(tuple(said), "so", **options), limits)


GOOD = Said(3, {3: -0.1, 4: -2.5})


@pytest.mark.parametrize(
    ("first", "kind", "outcome"),
    [
        (Said(0), Kind.SAME, Outcome.EXACT),
        (Said(0, {0: -0.5, 1: -0.6}), Kind.SAME, Outcome.EXACT),
        (Said(0, {0: -0.59}), Kind.SAME, Outcome.EXACT),
        (Said(0, {0: -0.61}), Kind.DRIFTED, Outcome.DIVERGED),
        (Said(0, {0: -0.5, 1: -0.71}), Kind.DRIFTED, Outcome.DIVERGED),
        (Said(0, {0: -0.5, 2: -12.0}), Kind.SAME, Outcome.EXACT),
        (Said(1), Kind.NEAR, Outcome.NEAR_TIE),
        (Said(1, {1: -0.55, 0: -0.58}), Kind.NEAR, Outcome.NEAR_TIE),
        (Said(1, {1: -0.1, 0: -3.0}), Kind.APART, Outcome.DIVERGED),
        (Said(2), Kind.APART, Outcome.DIVERGED),
        (Said(9), Kind.APART, Outcome.DIVERGED),
        (Said(None, text="what"), Kind.APART, Outcome.DIVERGED),
        (None, Kind.MISSING, Outcome.NOT_COMPARED),
    ],
)
def test_a_token_and_its_prompt(first, kind, outcome):
    verdict = judged(first, GOOD)
    assert (verdict.places[0].kind, verdict.outcome) == (kind, outcome)
    assert verdict.places[1].kind is Kind.SAME
    assert verdict.compared == 2 - (first is None)


def test_margins_in_words():
    near, far, alien = (judged(Said(t, {t: -0.4, 0: -0.45}), GOOD) for t in (1, 2, 9))
    assert near.reason == "token 0: 'one' instead of 'zero', which is recorded 0.1 above it, the engine puts it 0.05 above"
    assert "is recorded 8.5 above it" in far.reason
    assert "#9 instead of 'zero', which is recorded at least 8.5 above it" in alien.reason
    assert judged(Said(None, text="what"), GOOD).reason.startswith("token 0: 'what' instead of 'zero'")


def test_a_divergence_counts_before_what_is_missing_and_that_before_a_near_tie():
    assert judged(Said(2), None).outcome is Outcome.DIVERGED
    assert judged(Said(1), None).outcome is Outcome.NOT_COMPARED
    assert judged(Said(0), GOOD, problem="it stopped").outcome is Outcome.NOT_COMPARED
    assert judged(Said(1), None, forced=False, problem="it goes on").outcome is Outcome.NEAR_TIE
    assert judged(Said(0), None, forced=False, problem="it ends").outcome is Outcome.NOT_COMPARED


def test_the_first_layer_that_is_off_is_named():
    wanted = np.ones((3, 3, 4), np.float32)
    answer = replace(ANSWER, hidden=wanted)
    seen = wanted.copy()
    seen[1:, 1, 2] += 0.5
    verdict = judge(RECORDING, answer, Followed((Said(2), GOOD), "so", hidden=seen), LIMITS)
    assert (verdict.first_layer.layer, verdict.first_layer.position, verdict.first_layer.error) == (1, 1, pytest.approx(0.5))
    assert judge(RECORDING, answer, Followed((Said(2), GOOD), "so", hidden=wanted), LIMITS).first_layer is None
    assert judge(RECORDING, answer, Followed((Said(0), GOOD), "so", hidden=seen), LIMITS).first_layer is None
    broken = np.full_like(seen, np.nan)
    assert judge(RECORDING, answer, Followed((Said(2), GOOD), "so", hidden=broken), LIMITS).first_layer.layer == 0


def test_an_engine_that_raises_gets_a_verdict():
    class Broken:
        def describe(self):
            raise NotComparedError("gone")

        def follow(self, answer):
            raise ArgumentError("too long")

    found = compare(RECORDING, Broken(), LIMITS)
    assert (found.verdicts[0].outcome, found.verdicts[0].reason, found.passed) == (Outcome.NOT_COMPARED, "too long", False)


def test_nan_is_no_answer():
    with pytest.raises(NotComparedError, match="NaN"):
        log_softmax(np.array([1.0, np.nan]))


def test_the_likeliest_of_equals_is_the_lowest():
    ids, logprobs = likeliest(np.array([[0.0, 2.0, 1.0, 2.0, 2.0], [5.0, 1.0, 1.0, 1.0, 0.0]]), 2)
    assert ids.tolist() == [[1, 3], [0, 1]]
    assert logprobs.tolist() == [[2.0, 2.0], [5.0, 1.0]]


def test_vtcore_follows_itself_exactly_and_on_another_provider(recording, engine, model):
    other = VtcoreEngine(model, providers="portable")
    try:
        for one in (engine, other):
            found = compare(recording, one, ARITHMETIC["float32"])
            assert {v.outcome for v in found.verdicts} == {Outcome.EXACT}
            assert max(v.largest_difference for v in found.verdicts) < 1e-4
    finally:
        other.close()


def test_two_recordings(recording):
    limits = ARITHMETIC["float32"]
    assert compare(recording, RecordedEngine(recording), limits).count(Outcome.EXACT) == len(recording.answers)
    first, *others = recording.answers
    changed = replace(first, token_ids=(*first.token_ids[:2], 1, *first.token_ids[3:]))
    shorter = replace(others[0], **{n: getattr(others[0], n)[:3] for n in ("token_ids", "top_ids", "top_logprobs")})
    elsewhere = replace(others[1], prompt_token_ids=(1, 2, 3))
    found = compare(recording, RecordedEngine(replace(recording, answers=(changed, shorter, elsewhere))), limits)
    outcomes, reasons = [v.outcome for v in found.verdicts], [v.reason for v in found.verdicts]
    assert outcomes == [Outcome.DIVERGED, *[Outcome.NOT_COMPARED] * 4]
    assert "goes on from a token of its own: 3 tokens after it" in reasons[0]
    assert "the other recording ends: 3 tokens after it" in reasons[1]
    assert "it tokenises the prompt differently: 3 tokens instead of 5" in reasons[2]
    assert "has no such prompt" in reasons[3]


def test_hidden_states_find_the_layer(hidden):
    made, engine = hidden
    followed = engine.follow(made.answers[0])
    np.testing.assert_allclose(followed.hidden, made.answers[0].hidden, atol=1e-5)
    assert compare(made, engine, ARITHMETIC["float32"]).passed
    answer = made.answers[0]
    wrong = replace(
        answer, top_ids=answer.top_ids + 1, token_ids=tuple(t + 1 for t in answer.token_ids), hidden=answer.hidden * [[[1]], [[1.1]]]
    )
    verdict = compare(replace(made, answers=(replace(wrong, prompt_token_ids=answer.prompt_token_ids),)), engine, ARITHMETIC["float32"])
    assert verdict.verdicts[0].first_layer.layer == 1


@pytest.mark.parametrize("name", ["llama_bfloat16", "qwen3_bfloat16"])
def test_what_torch_says_in_bfloat16(name, tmp_path):
    """Recorded from transformers: with rounding emulated every token agrees, or is a marked near tie."""
    golden = Golden.load(FOLDER / f"{name}.json")
    facts = ModelFacts(name, golden.architecture, golden.config["vocab_size"], {}, None, ())
    recording = Recording(facts, {"name": "transformers", "dtype": "bfloat16"}, tuple(map(_from_golden, golden.cases)))
    engine = VtcoreEngine(str(golden.write_safetensors(tmp_path)), providers="reference", dtype="bfloat16")
    try:
        found = compare(recording, engine, Tolerances(near_tie=2 * golden.tolerance, logprob=1e9, hidden=0))
    finally:
        engine.close()
    assert {v.outcome for v in found.verdicts} <= {Outcome.EXACT, Outcome.NEAR_TIE}
    assert found.count(Outcome.EXACT) >= 3


def _from_golden(case):
    """Its tokens and margins; the second best has no id there, so a stand-in holds its place."""
    n = len(case.tokens)
    ids = np.array([[t, (t + 1) % 2] for t in case.tokens], np.int32)
    logprobs = np.stack([np.zeros(n), -np.array(case.margins)], 1).astype(np.float32)
    return Answer("golden", None, False, tuple(case.prompt), tuple(case.tokens), ids, logprobs, "length")


@pytest.mark.parametrize("name", ["near_tie", "logprob", "hidden"])
@pytest.mark.parametrize("value", [-1.0, float("inf"), float("nan")])
def test_tolerances_are_numbers_from_0(name, value):
    with pytest.raises(ArgumentError, match=f"tolerance {name}"):
        replace(LIMITS, **{name: value})
