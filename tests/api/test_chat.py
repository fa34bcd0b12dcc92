"""Chat completions: what OpenAI's clients read, and what is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from vtcore import SamplingParams
from vtcore.api.chat import ChatRequest
from vtcore.api.errors import ApiError, api_error
from vtcore.api.responses import ResponsesRequest
from vtcore.errors import ArgumentError, QueueFullError, TemplateError

HI = [{"role": "user", "content": "hi"}]
PROMPT = "[user]hi[assistant]"


def test_the_whole_answer(ask, llm):
    told = ask("chat", messages=HI, max_tokens=6)
    wanted = llm.generate(PROMPT, SamplingParams(temperature=0, max_tokens=6))[0].outputs[0]
    (choice,) = told["choices"]
    assert choice["message"] == {"role": "assistant", "content": wanted.text}
    assert (choice["index"], choice["finish_reason"], choice["stop_reason"], choice["logprobs"]) == (0, "length", None, None)
    counts = {"prompt_tokens": len(PROMPT), "completion_tokens": 6, "total_tokens": len(PROMPT) + 6}
    assert told["usage"] == counts | {"prompt_tokens_details": {"cached_tokens": 0}}
    assert told["id"].startswith("chatcmpl-")
    assert (told["object"], told["model"]) == ("chat.completion", "tiny")


def test_frames_join_to_the_whole(ask):
    body = {"messages": HI, "max_completion_tokens": 8, "n": 3, "seed": 1, "temperature": 1.0, "logprobs": True, "top_logprobs": 2}
    whole, frames = ask("chat", **body), ask("chat", **body, stream=True)
    assert [f["choices"][0]["delta"] for f in frames[:3]] == [{"role": "assistant", "content": ""}] * 3
    for choice in whole["choices"]:
        own = [c for f in frames for c in f["choices"] if c["index"] == choice["index"]]
        assert "".join(c["delta"].get("content", "") for c in own) == choice["message"]["content"]
        assert [e for c in own if c["logprobs"] for e in c["logprobs"]["content"]] == choice["logprobs"]["content"]
        assert [c["finish_reason"] for c in own if c["finish_reason"]] == [choice["finish_reason"]]
    assert len({f["id"] for f in frames}) == 1
    assert not any("usage" in f for f in frames)


def test_usage_comes_last_if_asked_for(ask):
    frames = ask("chat", messages=HI, max_tokens=3, stream=True, stream_options={"include_usage": True})
    assert frames[-1]["choices"] == []
    assert frames[-1]["usage"]["completion_tokens"] == 3
    assert not any("usage" in f for f in frames[:-1])
    frames = ask("chat", messages=HI, max_tokens=3, stream=True, stream_options={"include_usage": True, "continuous_usage_stats": True})
    counts = [f["usage"]["completion_tokens"] for f in frames]
    assert counts == sorted(counts)
    assert counts[-1] == 3


@pytest.mark.parametrize(("top", "entries"), [({}, 0), ({"top_logprobs": 0}, 0), ({"top_logprobs": 3}, 3)])
def test_logprobs_name_each_token_and_its_bytes(ask, top, entries):
    told = ask("chat", messages=HI, max_tokens=4, logprobs=True, **top)["choices"][0]
    content = told["logprobs"]["content"]
    assert bytes(b for e in content for b in e["bytes"]).decode("utf-8", "replace") == told["message"]["content"]
    assert [len(e["top_logprobs"]) for e in content] == [entries] * 4
    for entry in content if entries else ():
        likely = [t["logprob"] for t in entry["top_logprobs"]]
        assert likely == sorted(likely, reverse=True)
        assert entry["logprob"] == likely[0]


def test_token_ids_are_there_if_asked_for(ask, llm):
    told = ask("chat", messages=HI, max_tokens=4, return_token_ids=True, logprobs=True, return_tokens_as_token_ids=True)
    assert told["prompt_token_ids"] == llm.tokenizer.encode(PROMPT)
    (choice,) = told["choices"]
    assert [e["token"] for e in choice["logprobs"]["content"]] == [f"token_id:{i}" for i in choice["token_ids"]]


def test_prompt_logprobs_begin_with_null(ask):
    told = ask("chat", messages=HI, max_tokens=1, prompt_logprobs=1)["prompt_logprobs"]
    assert told[0] is None
    assert len(told) == len(PROMPT)
    assert all({"logprob", "rank", "decoded_token"} == said.keys() for row in told[1:] for said in row.values())


def test_the_last_message_is_continued(ask, llm):
    messages = [*HI, {"role": "assistant", "content": "I am "}]
    told = ask("chat", messages=messages, max_tokens=4, continue_final_message=True, add_generation_prompt=False, echo=True)
    after = llm.generate("[user]hi[assistant]I am", SamplingParams(temperature=0, max_tokens=4))[0].outputs[0].text
    assert told["choices"][0]["message"]["content"] == "I am" + after


def test_content_in_parts_is_text(ask):
    parts = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    assert ask("chat", messages=parts, max_tokens=4)["choices"] == ask("chat", messages=HI, max_tokens=4)["choices"]


REFUSED = {
    "stream_options": {"stream_options": {"include_usage": True}},
    "top_logprobs": {"top_logprobs": 3},
    "response_format": {"response_format": {"type": "json_object"}},
    "structured_outputs": {"structured_outputs": {"regex": "a"}},
    "grammar": {"grammar": "root ::= [a-z]"},
    "regex": {"regex": "a"},
    "json_schema": {"json_schema": {"type": "object"}},
    "truncation_side": {"truncation_side": "right", "truncate_prompt_tokens": 2},
    "ec_transfer_params": {"ec_transfer_params": {"a": 1}},
    "vllm_xargs": {"vllm_xargs": {"a": 1}},
    "tools": {"tools": [{"type": "function", "function": {"name": "f"}}]},
    "tool_choice": {"tool_choice": "required"},
    "best_of": {"best_of": 4},
    "use_beam_search": {"use_beam_search": True},
    "messages": {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
    "chat_template": {"chat_template": "{{ 1 }}"},
    "continue_final_message": {"continue_final_message": True, "add_generation_prompt": True},
    "echo": {"echo": True},
    "prompt_logprobs": {"prompt_logprobs": 1, "stream": True},
}


@pytest.mark.parametrize("param", REFUSED)
def test_what_cannot_be_honoured_is_refused_by_name(ask, param):
    with pytest.raises(ApiError) as refused:
        ask("chat", **{"messages": HI} | REFUSED[param])
    assert (refused.value.status, refused.value.param) == (400, param)


def test_reasoning_effort_is_a_variable_of_the_template():
    asked = ChatRequest(messages=HI, reasoning_effort="low")
    assert asked.template_variables()["reasoning_effort"] == "low"
    nearer = ChatRequest(messages=HI, reasoning_effort="low", chat_template_kwargs={"reasoning_effort": "high"})
    assert nearer.template_variables()["reasoning_effort"] == "high"
    assert ResponsesRequest(input="hi", reasoning={"effort": "low"}).as_chat().reasoning_effort == "low"
    assert "reasoning_effort" not in ResponsesRequest(input="hi").as_chat().template_variables()


HARMLESS = [
    {"response_format": {"type": "text"}},
    {"tool_choice": "none"},
    {"tool_choice": "auto"},
    {"tools": [], "tool_choice": None},
    {"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "none"},
    {"user": "somebody", "metadata": {"a": "b"}, "store": False, "an_unknown_field": 1},
    {"best_of": 1, "n": 1},
    {"grammar": "", "json_schema": None, "truncation_side": "left", "vllm_xargs": {}},
    {"reasoning_effort": "low"},
    {"model": "also-tiny"},
    {"model": ""},
]


@pytest.mark.parametrize("extra", HARMLESS, ids=str)
def test_what_asks_for_nothing_is_accepted(ask, extra):
    assert ask("chat", messages=HI, max_tokens=2, **extra)["usage"]["completion_tokens"] == 2


WRONG = [
    ({"messages": []}, "messages"),
    ({"messages": None}, "messages"),
    ({"messages": [{"role": 5, "content": "x" * 1000}] * 2000}, "messages"),
    ({"messages": HI, "top_logprobs": 21, "logprobs": True}, "top_logprobs"),
    ({"messages": HI, "n": 0}, "n"),
    ({"messages": HI, "n": 10**6}, "n"),
    ({"messages": HI, "temperature": "warm"}, "temperature"),
    ({"messages": HI, "logit_bias": {"abc": 5}}, "logit_bias"),
    ({"messages": HI, "stop": ["x"] * 1000}, "stop"),
    ({"messages": HI, "seed": 1 << 64}, "seed"),
    ({"messages": HI, "max_tokens": -1}, "max_tokens"),
]


@pytest.mark.parametrize(("body", "param"), WRONG, ids=range(len(WRONG)))
def test_a_wrong_field_is_named_in_few_words(ask, body, param):
    with pytest.raises(ValidationError) as wrong:
        ask("chat", **body)
    told = api_error(wrong.value)
    assert (told.status, told.param) == (400, param)
    assert len(json.dumps(told.body())) < 4096


@pytest.mark.parametrize(
    "extra",
    [{"temperature": -1}, {"top_p": 0}, {"top_k": -2}, {"logit_bias": {"99999": 5}}, {"logit_bias": {"3": 1000}}, {"n": 2}, {"stop": [""]}],
    ids=str,
)
def test_values_out_of_range_are_the_callers_fault(ask, extra):
    with pytest.raises(ArgumentError) as wrong:
        ask("chat", messages=HI, **extra)
    assert api_error(wrong.value).status == 400


def test_an_unknown_model_is_not_found(ask):
    with pytest.raises(ApiError, match="there is no model 'gpt-4'; there is tiny, also-tiny") as unknown:
        ask("chat", messages=HI, model="gpt-4")
    assert (unknown.value.status, unknown.value.param) == (404, "model")


def test_what_is_not_the_clients_doing_says_nothing_of_its_insides():
    assert api_error(QueueFullError("the queue is full")).status == 503
    assert api_error(KeyError("/a/secret/path")).body()["error"] == {
        "message": "the engine failed: KeyError", "type": "InternalServerError", "param": None, "code": 500
    }  # fmt: skip


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(ChatRequest.model_fields)), JSON, max_size=6))
def test_any_body_is_taken_or_refused(body):
    status = 200
    try:
        request = ChatRequest.model_validate({"messages": HI} | body)
        request.check()
        request.conversation()
        request.sampling_params({}, request.most_tokens, request.asked_logprobs)
    except (ValidationError, ApiError, ArgumentError, TemplateError) as refused:
        status = api_error(refused).status
    assert status in (200, 400)
