"""What holds of all bodies: null, names of other routes, and errors that say what a value may be."""

from typing import get_args

import pytest
from pydantic import ValidationError

from vtcore.api.chat import ChatRequest
from vtcore.api.completion import CompletionRequest
from vtcore.api.errors import ApiError, api_error
from vtcore.api.responses import ResponsesRequest

HI = [{"role": "user", "content": "hi"}]
NEEDED = {ChatRequest: {"messages": HI}, CompletionRequest: {"prompt": "hi"}, ResponsesRequest: {"input": "hi"}}


@pytest.mark.parametrize("kind", NEEDED)
def test_null_is_as_if_the_field_were_not_there(kind):
    nulls = {name: None for name, field in kind.model_fields.items() if not field.is_required() and name != "max_tokens"}
    request, plain = kind.model_validate(NEEDED[kind] | nulls), kind.model_validate(NEEDED[kind])
    request.check()
    assert request.model_dump() == plain.model_dump()
    assert {n for n in request.model_fields_set if type(None) not in get_args(kind.model_fields[n].annotation)} == set(NEEDED[kind])
    with pytest.raises(ValidationError):
        kind.model_validate(dict.fromkeys(NEEDED[kind]))


def test_null_for_max_tokens_is_no_limit():
    assert CompletionRequest(prompt="a").max_tokens == 16
    assert CompletionRequest(prompt="a", max_tokens=None).max_tokens is None


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "max_output_tokens"])
def test_a_limit_of_tokens_holds_under_any_of_its_names(name):
    assert ChatRequest.model_validate({"messages": HI, name: 3}).most_tokens == 3
    assert CompletionRequest.model_validate({"prompt": "a", name: 3}).max_tokens == 3
    assert ResponsesRequest.model_validate({"input": "a", name: 3}).max_output_tokens == 3
    assert CompletionRequest.model_validate({"prompt": "a", "max_tokens": 5, name: 5}).max_tokens == 5
    assert ResponsesRequest.model_validate({"input": "a", "max_output_tokens": 5, "max_tokens": 3}).max_output_tokens == 5


@pytest.mark.parametrize(
    ("kind", "wrong", "said"),
    [
        (CompletionRequest, {"prompt": [1.5]}, "prompt: Input should be a text, token ids, or a list of at most 1024 of one of these"),
        (
            CompletionRequest,
            {"prompt": ["a"] * 1025},
            "prompt: Input should be a text, token ids, or a list of at most 1024 of one of these",
        ),
        (ChatRequest, {"stop": 5}, "stop: Input should be a text, or a list of at most 64, each of at most 4096 characters"),
        (ChatRequest, {"tool_choice": 5}, "tool_choice: Input should be a word such as none, or an object"),
        (ChatRequest, {"messages": [{"role": "user", "content": 5}]}, "messages.0.content: Input should be a text, a list of parts"),
        (ResponsesRequest, {"input": []}, "input: Input should be a text, or a list of 1 to 4096 items"),
    ],
)
def test_an_error_says_what_the_value_may_be(kind, wrong, said):
    with pytest.raises(ValidationError) as refused:
        kind.model_validate(NEEDED[kind] | wrong)
    told = api_error(refused.value)
    assert told.message.startswith(said)
    assert told.param == next(iter(wrong))


@pytest.mark.parametrize("name", ["messages", "tools", "self", "clock", "add_generation_prompt"])
def test_template_variables_cannot_stand_for_fields(name):
    with pytest.raises(ApiError) as refused:
        ChatRequest(messages=HI, chat_template_kwargs={name: []}).template_variables()
    assert (refused.value.status, refused.value.param) == (400, "chat_template_kwargs")
    same = ChatRequest(messages=HI, add_generation_prompt=False, chat_template_kwargs={"add_generation_prompt": False, "x": 1})
    assert same.template_variables() == {"add_generation_prompt": False, "x": 1}


def test_parts_of_a_message_are_text_or_a_refusal():
    parts = [{"type": "text", "text": "a", "cache_control": 1}, {"type": "output_text", "text": "b"}, {"type": "refusal", "refusal": "c"}]
    (message,) = ChatRequest.model_validate({"messages": [{"role": "assistant", "content": parts}]}).conversation()
    assert [(p["type"], p["text"]) for p in message["content"]] == [("text", "a"), ("text", "b"), ("text", "c")]
    assert message["content"][0]["cache_control"] == 1
    for part, said in (({"type": "text", "text": 5}, "type 'text' has no text"), ({"type": "image_url"}, "'image_url' can't be read")):
        with pytest.raises(ApiError, match=said):
            ChatRequest.model_validate({"messages": [{"role": "user", "content": [part]}]}).conversation()
