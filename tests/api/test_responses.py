"""Responses: the same answers as chat completions give, in other objects."""

import pytest

from vtcore.api.errors import ApiError

HI = [{"role": "user", "content": "hi"}]


def test_it_is_the_chat_completion(ask):
    chat = ask("chat", messages=[{"role": "system", "content": "be short"}, *HI], max_tokens=6)
    told = ask("respond", input="hi", instructions="be short", max_output_tokens=6)
    (item,) = told["output"]
    assert item["content"][0]["text"] == chat["choices"][0]["message"]["content"]
    assert (told["status"], told["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert told["usage"]["total_tokens"] == chat["usage"]["total_tokens"]


def test_events_come_in_openais_order(ask):
    whole = ask("respond", input=HI, max_output_tokens=6, top_logprobs=1)
    events = ask("respond", input=HI, max_output_tokens=6, top_logprobs=1, stream=True)
    kinds = [e["type"].removeprefix("response.") for e in events]
    assert kinds[:4] == ["created", "in_progress", "output_item.added", "content_part.added"]
    assert kinds[-4:] == ["output_text.done", "content_part.done", "output_item.done", "incomplete"]
    assert set(kinds[4:-4]) == {"output_text.delta"}
    assert [e["sequence_number"] for e in events] == list(range(len(events)))
    part = whole["output"][0]["content"][0]
    assert "".join(e["delta"] for e in events if "delta" in e) == part["text"]
    assert events[-1]["response"]["output"][0]["content"][0] == part


def test_calls_of_tools_and_their_results_are_turns(ask):
    items = [
        *HI,
        {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "x"},
    ]
    assert ask("respond", input=items, max_output_tokens=1)["usage"]["input_tokens"] == len("[user]hi[assistant][tool]x[assistant]")


def test_what_asks_for_nothing_is_accepted(ask):
    told = ask("respond", input="hi", max_output_tokens=1, text={"format": None}, chat_template_kwargs={"x": 1}, stream=None)
    assert told["status"] == "incomplete"


@pytest.mark.parametrize(
    ("param", "extra"),
    [
        ("previous_response_id", {"previous_response_id": "resp_1"}),
        ("background", {"background": True}),
        ("text", {"text": {"format": {"type": "json_object"}}}),
        ("truncation", {"truncation": "auto"}),
        ("n", {"n": 2}),
        ("prompt_logprobs", {"prompt_logprobs": 0}),
        ("return_token_ids", {"return_token_ids": True}),
        ("previous_input_messages", {"previous_input_messages": HI}),
        ("n_predict", {"n_predict": 5}),
        ("input", {"input": [{"type": "item_reference", "id": "1"}]}),
        ("tools", {"tools": [{"type": "function", "name": "f"}]}),
    ],
)
def test_what_cannot_be_honoured(ask, param, extra):
    with pytest.raises(ApiError) as refused:
        ask("respond", **{"input": "hi"} | extra)
    assert (refused.value.status, refused.value.param) == (400, param)
