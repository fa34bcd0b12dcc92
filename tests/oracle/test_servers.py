"""Every kind of server, right and wrong in every way that was thought of: what is wrong is said, and never passes."""

import numpy as np
import pytest

from tests.oracle.standin import OWNERS
from tests.patience import SECONDS
from vtcore.errors import ArgumentError
from vtcore.oracle.comparison import compare
from vtcore.oracle.engines.openai_url import ServerEngine, ServerOptions
from vtcore.oracle.verdict import ARITHMETIC, Kind, Outcome

KINDS = tuple(OWNERS)
FLOAT32 = ARITHMETIC["float32"]


def held(recording, server, **options):
    engine = ServerEngine(server if isinstance(server, str) else server.url, recording, ServerOptions(**{"timeout": SECONDS, **options}))
    return compare(recording, engine, FLOAT32)


def outcomes(comparison):
    return {v.outcome for v in comparison.verdicts}


def reasons(comparison):
    return " | ".join(v.reason for v in comparison.verdicts)


def favouring(recording, prompt, position, boost):
    """Another model: after one prefix its logits put the recorded second best over the best by `boost`."""
    answer = recording.answers[prompt]
    prefix = [*answer.prompt_token_ids, *answer.token_ids[:position]]
    first, second = answer.top_ids[position, :2]

    def twist(ids, row):
        if list(ids) == prefix:
            row[second] = row[first] + boost
        return row

    return twist


@pytest.mark.parametrize("forcing", ["auto", "continue"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_model_is_exact_with_log_probabilities(recording, standin, kind, forcing):
    found = held(recording, standin(kind), forcing=forcing)
    assert outcomes(found) == {Outcome.EXACT}, reasons(found)
    assert found.engine["name"] == kind
    assert all(v.largest_difference is not None and v.largest_difference < 1e-5 for v in found.verdicts)
    scored = forcing == "auto" and kind in ("vllm", "sglang", "openai")
    assert {v.how for v in found.verdicts} == {"scored in 1 request" if scored else "continued in 1 request"}


@pytest.mark.parametrize("forcing", ["auto", "continue"])
@pytest.mark.parametrize("kind", KINDS)
def test_one_token_that_differs_changes_no_other(recording, standin, kind, forcing):
    found = held(recording, standin(kind, twist=favouring(recording, 0, 2, 0.5)), forcing=forcing)
    verdict, *others = found.verdicts
    kinds = [p.kind for p in verdict.places]
    assert verdict.outcome is Outcome.DIVERGED
    assert (kinds[2], verdict.first.position, verdict.first.got) == (Kind.APART, 2, recording.answers[0].top_ids[2, 1])
    assert kinds[:2] + kinds[3:] == [Kind.SAME] * (len(kinds) - 1)
    assert verdict.first.lead == pytest.approx(0.5, abs=1e-4)
    assert {v.outcome for v in others} == {Outcome.EXACT}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"counted": 1}, "tokenises differently, or truncates"),
        ({"raw": b"not json"}, "is not JSON"),
        ({"raw": b'{"choices": '}, "is not JSON"),
        ({"raw": b"[" * 5000 + b"]" * 5000}, "deep"),
        ({"raw": b"{}"}, "its answer has no"),
        ({"raw": b"[]"}, "its answer has no"),
        ({"raw": b'{"choices": [], "meta_info": 3, "truncated": false}'}, "its answer has no"),
        ({"raw": b"oops", "status": 500}, "answered HTTP 500: 'oops'"),
        ({"broken": True}, "broke off"),
    ],
    ids=["counts", "text", "half", "deep", "empty", "list", "hollow", "error", "cut"],
)
def test_a_broken_server_is_no_pass(recording, standin, kind, wrong, words):
    found = held(recording, standin(kind, **wrong))
    assert outcomes(found) == {Outcome.NOT_COMPARED}
    assert not found.passed
    assert words in reasons(found) or ("gave no logprobs" in reasons(found) and "its answer" in words)


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_that_ends_too_early_is_no_pass(recording, standin, kind):
    found = held(recording, standin(kind, short=2), forcing="continue")
    assert outcomes(found) == {Outcome.NOT_COMPARED}
    assert "it gave 4 of 6 tokens and stopped for 'length'" in reasons(found)
    assert [p.kind for p in found.verdicts[0].places].count(Kind.MISSING) == 2


@pytest.mark.parametrize("own", [-0.5, 0.5])
@pytest.mark.parametrize(
    ("kind", "forcing"), [("openai", "score"), ("openai", "continue"), ("vllm", "continue"), ("llama-cpp-python", "auto")]
)
def test_two_log_probabilities_of_one_token_are_no_pass(recording, standin, kind, forcing, own):
    found = held(recording, standin(kind, own=own), forcing=forcing)
    assert outcomes(found) == {Outcome.NOT_COMPARED}
    assert "it tells two log probabilities of one token, " in reasons(found) or (own > 0 and "are never above 0" in reasons(found))


@pytest.mark.parametrize("kind", ["vllm", "llama.cpp", "llama-cpp-python"])
def test_other_tokens_for_the_same_text_are_no_pass(recording, standin, kind):
    found = held(recording, standin(kind, shifted=1))
    assert outcomes(found) == {Outcome.NOT_COMPARED}
    assert "it tokenises the prompt differently: 11 tokens instead of 11, from position 0 on" in reasons(found)


@pytest.mark.parametrize("wrong", [("hang",), ("trickle",), ("trickle", "unsized")], ids="-".join)
def test_a_server_that_is_too_slow_is_given_up(recording, standin, wrong):
    server = standin("vllm", **dict.fromkeys(wrong, True))
    engine = ServerEngine(server.url, recording, ServerOptions(timeout=SECONDS))
    engine.describe()  # what it is, it says in time
    engine.client.timeout = 0.4
    found = compare(recording, engine, FLOAT32)
    assert outcomes(found) == {Outcome.NOT_COMPARED}
    assert "gave no whole answer within 0.4 s" in found.verdicts[0].reason
    assert "not asked: 2 prompts before it got no answer at all" in found.verdicts[-1].reason


def test_nobody_there(recording):
    found = held(recording, "http://127.0.0.1:9")
    assert "nothing listens at 127.0.0.1:9" in found.verdicts[0].reason
    assert not found.passed
    assert found.engine == {"name": "unknown"}


def test_a_bound_to_the_requests_of_a_prompt(recording, standin):
    def twist(ids, row):
        row[int(row.argmax())] -= 50  # so every token differs
        return row

    server = standin("llama.cpp", twist=twist)
    found = held(recording, server, most_requests=3)
    assert [v.how for v in found.verdicts] == ["continued in 3 requests"] * 5
    assert "3 requests were spent after 3 of 6 tokens (--max-requests)" in found.verdicts[0].reason
    assert sum(path == "/completion" for path, _ in server.asked) == 15


def test_an_end_of_the_answer_is_a_token_too(recording, standin):
    (end,) = recording.model.end_ids
    answer = recording.answers[0]
    prefix = [*answer.prompt_token_ids, *answer.token_ids[:3]]

    def twist(ids, row):
        row[end] = 50 if list(ids) == prefix else row[end]
        return row

    for kind in KINDS:
        verdict = held(recording, standin(kind, twist=twist), forcing="continue").verdicts[0]
        assert verdict.outcome is Outcome.DIVERGED
        assert (verdict.first.position, verdict.first.got) == (3, end)
        assert verdict.compared == 6


def test_log_probabilities_of_sampling_are_not_taken_for_the_models(recording, standin):
    found = held(recording, standin("llama.cpp", certain=True))
    assert outcomes(found) == {Outcome.EXACT}
    assert {v.largest_difference for v in found.verdicts} == {None}


def test_a_server_without_ids_gets_text(recording, standin):
    server = standin("openai", text_only=True)
    assert outcomes(held(recording, server)) == {Outcome.EXACT}
    assert [type(body["prompt"]) for _, body in server.asked][:2] == [list, str]


def test_prompts_of_ids_need_a_server_that_takes_ids(recording, standin):
    from dataclasses import replace

    bare = replace(recording, answers=tuple(replace(a, text=None) for a in recording.answers))
    assert outcomes(held(bare, standin("llama.cpp"))) == {Outcome.EXACT}
    for kind in ("llama-cpp-python", "ollama"):
        assert "text only, and this" in reasons(held(bare, standin(kind)))


@pytest.mark.parametrize("kind", ["sglang", "llama.cpp", "ollama", "vllm"])
def test_a_server_is_known_by_a_path_where_its_owner_says_nothing(recording, standin, kind):
    found = held(recording, standin(kind, owner="somebody"))
    assert found.engine["name"] == kind
    assert "it answers at" in found.engine["detected"]


def test_of_several_models_one_has_to_be_named(recording, standin):
    server = standin("vllm", models=("tiny", "large"))
    assert "it serves 2 models (tiny, large): name one with --served-model" in reasons(held(recording, server))
    assert outcomes(held(recording, server, served_model="tiny")) == {Outcome.EXACT}
    assert server.asked[-1][1]["model"] == "tiny"


def test_neutral_sampling_is_asked_for(recording, standin):
    server = standin("llama-cpp-python")
    held(recording, server)
    body = next(body for path, body in server.asked if path == "/v1/completions")
    assert (body["temperature"], body["repeat_penalty"]) == (0, 1.0)


@pytest.mark.parametrize("url", ["localhost:80", "ftp://x", "http://", "http://x:99999", "http://x/?a=1"])
def test_an_address_that_is_none(recording, url):
    with pytest.raises(ArgumentError, match="engine"):
        ServerEngine(url, recording, ServerOptions())


@pytest.mark.parametrize("wrong", [{"forcing": "no"}, {"most_requests": 0}, {"timeout": 0.0}, {"timeout": 1e9}])
def test_options_out_of_range(wrong):
    with pytest.raises(ArgumentError, match="must be"):
        ServerOptions(**wrong)


def test_a_kind_that_is_none(recording, standin):
    with pytest.raises(ArgumentError, match="server is 'tgi'; it must be one of vllm"):
        ServerEngine(standin("vllm").url, recording, ServerOptions(server="tgi")).describe()


def test_the_numbers_of_a_recording_and_of_a_stand_in_agree(recording, brain):
    answer = recording.answers[0]
    row = brain.row(list(answer.prompt_token_ids))
    np.testing.assert_allclose(row[answer.top_ids[0]], answer.top_logprobs[0], atol=1e-5)
