"""Text completions: prompts in their forms, echo, scores, and what is refused."""

import pytest
from pydantic import ValidationError

from vtcore import SamplingParams
from vtcore.api import service
from vtcore.api.errors import ApiError, api_error
from vtcore.errors import PromptError


def test_the_whole_answer(ask, llm):
    told = ask("complete", prompt="abc")
    wanted = llm.generate("abc", SamplingParams(temperature=0, max_tokens=16))[0].outputs[0]
    assert told["choices"] == [
        {"index": 0, "text": wanted.text, "logprobs": None, "finish_reason": wanted.finish_reason, "stop_reason": None}
    ]
    assert told["object"] == "text_completion"


@pytest.mark.parametrize("prompts", [["abc", "xy"], [[97, 98, 99], [120, 121]]], ids=["texts", "ids"])
def test_choices_of_several_prompts_stand_in_their_order(ask, prompts):
    told = ask("complete", prompt=prompts, n=2, temperature=0.8, seed=3, max_tokens=5)
    alone = [ask("complete", prompt=p, n=2, temperature=0.8, seed=3, max_tokens=5)["choices"] for p in prompts]
    assert [c["index"] for c in told["choices"]] == [0, 1, 2, 3]
    assert [c["text"] for c in told["choices"]] == [c["text"] for choices in alone for c in choices]
    assert told["usage"]["completion_tokens"] == sum(len(c["text"]) for c in told["choices"]) or told["usage"]["completion_tokens"] <= 20


def test_frames_join_to_the_whole(ask):
    body = {"prompt": ["abc", "xy"], "n": 2, "temperature": 0.9, "seed": 5, "max_tokens": 6, "logprobs": 2}
    whole, frames = ask("complete", **body), ask("complete", **body, stream=True, stream_options={"include_usage": True})
    for choice in whole["choices"]:
        own = [c for f in frames for c in f["choices"] if c["index"] == choice["index"]]
        assert "".join(c["text"] for c in own) == choice["text"]
        for name, entries in choice["logprobs"].items():
            assert [e for c in own if c["logprobs"] for e in c["logprobs"][name]] == entries
    assert frames[-1]["usage"] == whole["usage"]


def test_echo_with_no_tokens_scores_the_prompt(ask):
    told = ask("complete", prompt="abc", echo=True, logprobs=1, max_tokens=0)
    (choice,) = told["choices"]
    assert (choice["text"], choice["finish_reason"], told["usage"]["completion_tokens"]) == ("abc", "length", 0)
    scores = choice["logprobs"]
    assert scores["tokens"] == ["a", "b", "c"]
    assert scores["token_logprobs"][0] is None
    assert all(s < 0 for s in scores["token_logprobs"][1:])
    assert (scores["text_offset"], scores["top_logprobs"][0]) == ([0, 1, 2], None)


def test_a_request_has_a_limit_of_sequences_and_of_scores(ask, monkeypatch):
    with pytest.raises(ApiError, match="600 prompts with n 2 are 1200 sequences; at most 1024 are allowed"):
        ask("complete", prompt=["a"] * 600, n=2, temperature=1)
    monkeypatch.setattr(service, "MOST_SCORES", 6)
    assert len(ask("complete", prompt=["ab", "c"], prompt_logprobs=1, max_tokens=0)["choices"]) == 2
    assert len(ask("complete", prompt=["abc", "defg"], logprobs=5, max_tokens=1)["choices"]) == 2
    for asked in ({"prompt_logprobs": 1}, {"echo": True, "logprobs": 1}):
        with pytest.raises(ApiError, match="prompt_logprobs are 4 tokens with 2 scores each; at most 6 scores"):
            ask("complete", prompt=["ab", "cd"], max_tokens=0, **asked)
    with pytest.raises(ApiError, match="at most 6 scores"):
        ask("chat", messages=[{"role": "user", "content": "hi"}], prompt_logprobs=0)


def test_minus_one_cuts_a_prompt_to_what_there_is_room_for(ask, llm):
    longest = llm.engine.intake.config.max_model_len
    for asked in ({"max_tokens": 3}, {"max_tokens": 0, "prompt_logprobs": 0}):
        told = ask("complete", prompt="abc" * longest, truncate_prompt_tokens=-1, ignore_eos=True, **asked)
        assert told["usage"]["total_tokens"] == longest
        assert told["usage"]["completion_tokens"] == asked["max_tokens"]
    assert ask("complete", prompt="abc", truncate_prompt_tokens=-1, max_tokens=1)["usage"]["prompt_tokens"] == 3
    assert ask("complete", prompt="abc", truncate_prompt_tokens=-1, max_tokens=10**9, stop=["x"])["usage"]["prompt_tokens"] == 1
    with pytest.raises(ApiError, match="it must be -1, or at least 1"):
        ask("complete", prompt="abc", truncate_prompt_tokens=0)


def test_echo_repeats_what_was_read(ask):
    (choice,) = ask("complete", prompt="abcdef", echo=True, logprobs=0, max_tokens=0, truncate_prompt_tokens=2)["choices"]
    assert (choice["text"], choice["logprobs"]["tokens"]) == ("ef", ["e", "f"])


def test_echo_streams_the_prompt_first(ask):
    frames = ask("complete", prompt="abc", echo=True, max_tokens=3, stream=True)
    assert frames[0]["choices"][0]["text"] == "abc"


@pytest.mark.parametrize("prompt", [[-1], [999999], [[1], [300]], ""], ids=str)
def test_prompts_that_cannot_be_run(ask, prompt):
    with pytest.raises(PromptError) as wrong:
        ask("complete", prompt=prompt)
    assert api_error(wrong.value).status == 400


@pytest.mark.parametrize("prompt", [[1.5], ["a", 1], None, [True], {"a": 1}, [["a"]]], ids=str)
def test_prompts_that_are_none(ask, prompt):
    with pytest.raises(ValidationError) as wrong:
        ask("complete", prompt=prompt)
    assert api_error(wrong.value).param == "prompt"


@pytest.mark.parametrize(
    ("param", "extra"), [("prompt", {"prompt": []}), ("suffix", {"suffix": "x"}), ("echo", {"echo": True, "logprobs": 1, "stream": True})]
)
def test_what_cannot_be_honoured(ask, param, extra):
    with pytest.raises(ApiError) as refused:
        ask("complete", **{"prompt": "a"} | extra)
    assert (refused.value.status, refused.value.param) == (400, param)


def test_one_bad_prompt_queues_none(ask, llm):
    with pytest.raises(PromptError):
        ask("complete", prompt=[[1, 2], [999999]])
    assert llm.engine.idle


def test_a_prompt_is_cut_from_its_front(ask):
    assert ask("complete", prompt="xyzabc", truncate_prompt_tokens=3)["choices"] == ask("complete", prompt="abc")["choices"]
