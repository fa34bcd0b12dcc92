"""Submit, step, abort: who gets what, when it ends, and what a fault costs."""

import numpy as np
import pytest

from tests.tiny import EOS, Bytes, Script, drain, engine
from vtcore.errors import ArgumentError, PromptError
from vtcore.sampling_params import SamplingParams

GREEDY = SamplingParams(temperature=0, max_tokens=20)


def said(text, prompt="ab", **params):
    """What comes of a script whose first words stand for the prompt; the script goes on from the prompt's last token."""
    e = engine(Script(b" " * (len(prompt) - 1) + text.encode() if isinstance(text, str) else text), tokenizer=Bytes())
    submission = e.submit(list(prompt.encode()), SamplingParams(temperature=0, **{"max_tokens": 20} | params))
    deltas = drain(e)
    assert "".join(d.text for d in deltas) == submission.output().outputs[0].text
    assert [i for d in deltas for i in d.token_ids] == submission.output().outputs[0].token_ids
    return submission.output().outputs[0], deltas


def with_eos(text, prompt="ab"):
    return [32] * (len(prompt) - 1) + [*text.encode(), EOS]


def test_it_says_what_the_model_says_until_the_end_of_sequence():
    out, deltas = said(with_eos("hello"))
    assert (out.text, out.finish_reason, out.stop_reason) == ("hello", "stop", None)
    assert out.token_ids == [*b"hello", EOS]
    assert [d.finish_reason for d in deltas] == [None] * 5 + ["stop"]


def test_the_end_token_has_text_only_if_asked_for():
    out, _ = said(with_eos("hi"), include_stop_str_in_output=True, skip_special_tokens=False)
    assert out.text == "hi<eos>"


def test_what_can_t_be_planned_twice_ends_every_request(monkeypatch):
    e = engine(Script(with_eos("hello")), tokenizer=Bytes())
    submissions = [e.submit(list(b"ab"), GREEDY) for _ in range(3)]
    with monkeypatch.context() as broken:
        broken.setattr(e.scheduler, "plan", lambda: [][0])
        for _ in range(2):
            assert not any(s.finished for s in submissions)
            with pytest.raises(IndexError):
                e.step()
    assert e.idle
    assert all(isinstance(s.fault, IndexError) for s in submissions)
    assert e.scheduler.kv.usage == 0
    after = e.submit(list(b"ab"), GREEDY)
    drain(e)
    assert after.output().outputs[0].text == "hello"


def test_ignoring_it_goes_on():
    out, _ = said([32, *b"hi", EOS, *b" there"], ignore_eos=True, max_tokens=6)
    assert (out.text, out.finish_reason) == ("hi th", "length")


def test_a_stop_token_is_named_as_the_reason_and_has_no_text():
    out, _ = said("hello", stop_token_ids=[ord("l")])
    assert (out.text, out.finish_reason, out.stop_reason) == ("he", "stop", ord("l"))
    assert out.token_ids == list(b"hel")


@pytest.mark.parametrize(("include", "text"), [(False, "hello"), (True, "hello, w")])
def test_a_stop_text_over_token_borders(include, text):
    out, _ = said("hello, world", stop=[", w", "xyz"], include_stop_str_in_output=include)
    assert (out.text, out.finish_reason, out.stop_reason) == (text, "stop", ", w")
    assert out.token_ids == list(b"hello, w")


def test_text_that_cannot_begin_a_stop_text_comes_with_its_own_token():
    _, deltas = said("abcdefZZ", stop="ZZZZZZZZZZZZ", max_tokens=8)
    assert [d.text for d in deltas] == ["a", "b", "c", "d", "e", "f", "", "ZZ"]


def test_before_min_tokens_no_stop_text_is_looked_for():
    out, _ = said("a.b.c.", stop=".", min_tokens=3)
    assert out.text == "a.b"
    assert out.token_ids == list(b"a.b.")


def test_half_a_character_waits_for_the_rest():
    _, deltas = said("é", max_tokens=2)
    assert [d.text for d in deltas] == ["", "é"]
    out, _ = said("é", max_tokens=1)
    assert out.text == "\ufffd"


def test_without_detokenize_there_are_only_ids():
    out, _ = said("hello", detokenize=False, max_tokens=3)
    assert (out.text, out.token_ids) == ("", list(b"hel"))


def test_no_tokens_may_be_asked_for():
    out, deltas = said("hello", max_tokens=0)
    assert (out.text, out.token_ids, out.finish_reason) == ("", [], "length")
    assert len(deltas) == 1


@pytest.mark.parametrize(("prompt", "max_tokens", "generated"), [(60, None, 4), (63, 1, 1), (60, 10, 4), (60, 2, 2), (64, 0, 0)])
def test_the_context_ends_a_sequence(prompt, max_tokens, generated):
    e = engine(Script(), max_model_len=64)
    submission = e.submit([1] * prompt, SamplingParams(temperature=0, max_tokens=max_tokens))
    drain(e)
    out = submission.output().outputs[0]
    assert len(out.token_ids) == generated
    assert out.finish_reason == "length"


@pytest.mark.parametrize(
    ("prompt", "params", "error", "words"),
    [
        ([], {}, PromptError, "no tokens"),
        ([1] * 64, {}, PromptError, "64 tokens; with max_model_len 64 it may have 63"),
        ([1] * 65, {"max_tokens": 0}, PromptError, "65 tokens; with max_model_len 64 it may have 64"),
        ([1, 257], {}, PromptError, "257; a token id is an integer from 0 to 256"),
        ([1, -1], {}, PromptError, "-1"),
        ([1, True], {}, PromptError, "True"),
        ([1.0], {}, PromptError, "1.0"),
        ([1], {"logit_bias": {99999: 5}}, ArgumentError, "logit_bias holds 99999"),
        ([1], {"stop_token_ids": [257]}, ArgumentError, "stop_token_ids holds 257"),
        ([1], {"allowed_token_ids": [300]}, ArgumentError, "allowed_token_ids holds 300"),
        ([1], {"allowed_token_ids": [EOS, 3], "stop_token_ids": [3], "min_tokens": 1}, ArgumentError, "all of allowed_token_ids"),
    ],
)
def test_what_cannot_be_run_is_refused_and_the_others_go_on(prompt, params, error, words):
    e = engine(Script(b"xyz"), max_model_len=64, tokenizer=Bytes())
    good = e.submit([1], SamplingParams(temperature=0, max_tokens=3))
    with pytest.raises(error, match=words):
        e.submit(prompt, SamplingParams(**params))
    drain(e)
    assert good.output().outputs[0].text == "xyz"


def test_what_the_cache_cannot_hold_is_refused_with_the_numbers():
    e = engine(Script(), pages=6)
    with pytest.raises(PromptError, match=r"20 tokens and up to 1 generated ones need 6 cache pages of 4 tokens .* there are 5"):
        e.submit([1] * 20, SamplingParams(max_tokens=1))
    with pytest.raises(PromptError, match="need 32 cache pages"):
        e.submit([1], SamplingParams(max_tokens=None))
    e.submit([1] * 19, SamplingParams(max_tokens=1))
    drain(e)


def test_texts_need_a_tokenizer():
    e = engine(Script())
    for params in (SamplingParams(stop="a"), SamplingParams(bad_words=["a"])):
        with pytest.raises(ArgumentError, match="tokenizer"):
            e.submit([1], params)


def test_a_running_id_is_not_given_twice():
    e = engine(Script())
    e.submit([1], GREEDY, request_id="a")
    with pytest.raises(ArgumentError, match="'a' is running"):
        e.submit([1], GREEDY, request_id="a")
    drain(e)
    e.submit([1], GREEDY, request_id="a")


def test_where_all_tokens_are_alike_a_bias_decides():
    e = engine(Script())
    submission = e.submit([1], SamplingParams(temperature=0, max_tokens=3, logit_bias={70: 1, 3: -5}))
    drain(e)
    assert submission.output().outputs[0].token_ids == [70, 70, 70]


def test_bad_words_are_spelled_with_and_without_a_space():
    out, _ = said("hello", bad_words=["e"], max_tokens=3)
    assert out.text[0] == "h"
    assert "e" not in out.text


def test_prompt_logprobs_one_for_each_token_but_the_first_in_any_chunks():
    scored = []
    for budget in (64, 8, 3):
        e = engine(Script(b"bcdefghi"), max_num_batched_tokens=budget, max_num_seqs=2, tokenizer=Bytes())
        submission = e.submit(list(b"abxde"), SamplingParams(temperature=0, max_tokens=2, prompt_logprobs=1, logprobs=0))
        drain(e)
        scored.append(submission.output())
    first = scored[0]
    assert first.prompt_logprobs[0] is None
    assert [list(p) for p in first.prompt_logprobs[1:]] == [[ord("b")], [ord("x"), ord("c")], [ord("d")], [ord("e")]]
    assert [p[i].rank for p, i in zip(first.prompt_logprobs[1:], b"bxde", strict=True)] == [1, 121, 1, 1]
    assert first.outputs[0].text == "fg"
    assert first.outputs[0].cumulative_logprob == pytest.approx(2 * first.prompt_logprobs[1][ord("b")].logprob)
    assert all((s.prompt_logprobs, s.outputs) == (first.prompt_logprobs, first.outputs) for s in scored)


def test_a_prompt_can_be_scored_alone():
    e = engine(Script(b"bcd"))
    submission = e.submit(list(b"abc"), SamplingParams(max_tokens=0, prompt_logprobs=0))
    drain(e)
    assert len(submission.output().prompt_logprobs) == 3
    assert submission.output().outputs[0].token_ids == []


def test_logits_of_every_token_in_any_chunks():
    for budget in (64, 2):
        model = Script(b"bcd")
        e = engine(model, max_num_batched_tokens=budget, max_num_seqs=2)
        submission = e.submit([7] * 5, SamplingParams(max_tokens=0), keep_logits=True)
        drain(e)
        assert np.array_equal(np.concatenate(submission.logits), model.table.numpy()[:5])
