"""The routes, asked over a socket: what clients send, and what they get back."""

import gzip
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.gate import Gate
from tests.server.conftest import serving

HI = [{"role": "user", "content": "hi"}]
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


def frames(server, path, body):
    with server.client.stream("POST", path, json=body | {"stream": True}) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in answer.iter_lines() if line]
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


def test_a_stream_says_what_the_whole_answer_says(server, ask):
    body = {"messages": HI, "temperature": 0, "max_tokens": 12, "logprobs": True, "top_logprobs": 1}
    whole, told = ask(CHAT, body), frames(server, CHAT, body)
    assert told[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(f["choices"][0]["delta"].get("content", "") for f in told) == whole["choices"][0]["message"]["content"]
    assert [e for f in told for e in (f["choices"][0]["logprobs"] or {}).get("content", [])] == whole["choices"][0]["logprobs"]["content"]


def test_prompt_logprobs_come_with_the_whole_answer(ask):
    told = ask(TEXT, {"prompt": "abc", "echo": True, "logprobs": 2, "max_tokens": 0})
    assert told["choices"][0]["logprobs"]["token_logprobs"][0] is None
    assert len(told["choices"][0]["logprobs"]["tokens"]) == 3


def test_many_at_once_are_as_each_alone(ask):
    bodies = [{"prompt": "a" * n, "temperature": 0.8, "seed": n, "max_tokens": 8} for n in range(1, 25)]
    alone = [ask(TEXT, b)["choices"] for b in bodies]
    with ThreadPoolExecutor(12) as pool:
        assert [t["choices"] for t in pool.map(lambda b: ask(TEXT, b), bodies)] == alone


def test_a_reader_that_leaves_frees_its_request(server):
    body = {"prompt": "abc", "max_tokens": 400, "ignore_eos": True, "stream": True}
    with server.client.stream("POST", TEXT, json=body) as answer:
        next(answer.iter_lines())
    server.check_idle()


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        (CHAT, {"messages": []}, "messages"),
        (CHAT, {"messages": HI, "response_format": {"type": "json_object"}}, "response_format"),
        (CHAT, {"messages": HI, "stream_options": {"include_usage": True}}, "stream_options"),
        (TEXT, {"prompt": [1.5]}, "prompt"),
        (TEXT, {"prompt": [999999]}, None),
        (TEXT, {"prompt": "a", "temperature": -1}, "temperature"),
        (TEXT, {"prompt": "a", "stop_token_ids": [-1]}, "stop_token_ids"),
        (TEXT, {"prompt": "a", "priority": 1}, "priority"),
        (TEXT, {"prompt": "a", "n": 2, "temperature": 0}, "n"),
        (TEXT, {"prompt": "a", "min_tokens": 600, "max_tokens": None}, "min_tokens"),
        (TEXT, {"prompt": "a" * 600}, None),
        (TEXT, {"prompt": "a", "logit_bias": {"99999": 1}}, "logit_bias"),
        (TEXT, {"prompt": ["a", ""], "stream": True}, None),
    ],
)
def test_refusals_have_openais_shape(ask, path, body, param):
    error = ask(path, body, 400)["error"]
    assert (error["code"], error["param"], error["type"]) == (400, param, "BadRequestError")
    assert error["message"]


NO_REQUESTS = ("", "{", "[" * 100_000, "nul", '{"messages": NaN}', '"text"', "\xff\xfe", '{"messages": "\\ud800"}', '{"messages": [{}]}')


@pytest.mark.parametrize("raw", NO_REQUESTS, ids=range(len(NO_REQUESTS)))
def test_bodies_that_are_no_requests(server, raw):
    answer = server.client.post(CHAT, content=raw.encode("latin-1"), headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, 400), answer.text


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b'{"a": 1', "the body is no JSON: Expecting ',' delimiter at character 7"),
        (b"5", "the body must be a JSON object, sent with Content-Type: application/json"),
        (b"", "the body must be a JSON object, sent with Content-Type: application/json"),
        (b'{"a": "\xff"}', "the body can't be read: it must be JSON in UTF-8"),
    ],
)
def test_bodies_that_are_no_requests_are_told_what_one_is(server, raw, said):
    error = server.client.post(CHAT, content=raw, headers={"content-type": "application/json"}).json()["error"]
    assert error["message"].startswith(said)
    assert error["param"] is None


def test_other_encodings_of_a_body_are_refused(server):
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    answer = server.client.post(TEXT, content=gzip.compress(b'{"prompt": "a"}'), headers=headers)
    assert (answer.status_code, answer.json()["error"]["type"]) == (415, "UnsupportedMediaTypeError")
    assert server.client.post(TEXT, json={"prompt": "a"}, headers=headers | {"content-encoding": "identity"}).status_code == 200


def test_errors_do_not_echo_what_was_sent(server):
    answer = server.client.post(CHAT, json={"messages": [{"role": 5, "content": "x" * 1000}] * 2000})
    assert answer.status_code == 400
    assert len(answer.content) < 4096


def test_a_body_over_the_limit(server):
    answer = server.client.post(TEXT, content=b" " * (33 << 20), headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, 413)

    def pieces():
        for _ in range(33):
            yield b" " * (1 << 20)

    answer = server.client.post(TEXT, content=pieces(), headers={"content-type": "application/json"})
    assert answer.status_code == 413


def test_unknown_routes_models_and_methods(server, ask):
    assert ask("/v1/embeddings", {}, 404)["error"]["code"] == 404
    assert ask(TEXT, {"prompt": "a", "model": "gpt-4"}, 404)["error"]["param"] == "model"
    wrong = server.client.get(TEXT)
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")


def test_head_is_get_without_a_body(server):
    told = server.client.head("/v1/models")
    assert (told.status_code, told.content) == (200, b"")
    assert int(told.headers["content-length"]) == len(server.client.get("/v1/models").content)
    assert server.client.head(TEXT).status_code == 405


def test_models(server):
    card = server.client.get("/v1/models").json()["data"][0]
    assert (card["id"], card["object"], card["max_model_len"]) == ("tiny", "model", 512)
    assert server.client.get("/v1/models/tiny").json() == card
    assert server.client.get("/v1/models/other").status_code == 404


def test_tokens_and_back(ask):
    told = ask("/tokenize", {"prompt": "héllo", "return_token_strs": True})
    assert told["count"] == len(told["tokens"]) == len(told["token_strs"]) == 6
    assert ask("/detokenize", {"tokens": told["tokens"]}) == {"prompt": "héllo"}
    chat = ask("/tokenize", {"messages": HI})
    assert ask("/detokenize", {"tokens": chat["tokens"]}) == {"prompt": "[user]hi[assistant]"}
    assert ask("/tokenize", {}, 400)["error"]["message"] == "give either prompt or messages"
    for wrong in (-1, 300, 1 << 63, "97", True, 1.5):
        assert ask("/detokenize", {"tokens": [97, wrong]}, 400)["error"]["param"] == "tokens"


def test_what_tokenize_cannot_honour_is_refused(ask):
    for wrong in ({"chat_template": "x"}, {"chat_template_kwargs": {"tools": []}}):
        assert ask("/tokenize", {"messages": HI} | wrong, 400)["error"]["param"] == next(iter(wrong))
    both = {"messages": HI, "add_generation_prompt": True, "continue_final_message": True}
    assert ask("/tokenize", both, 400)["error"]["param"] == "continue_final_message"
    assert ask("/tokenize", {"messages": HI, "tools": [{"type": "function"}], "return_token_strs": None})["token_strs"] is None


def test_request_ids_come_back(server):
    assert server.client.get("/version", headers={"X-Request-Id": "mine"}).headers["x-request-id"] == "mine"
    assert server.client.get("/version").headers["x-request-id"]


def test_metrics_count_what_was_answered(server, ask):
    def total():
        lines = server.client.get("/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("vtcore:generation_tokens_total"))

    before = total()
    ask(TEXT, {"prompt": "a", "max_tokens": 5, "ignore_eos": True})
    assert total() == before + 5


def test_sequences_that_did_not_end_count_as_aborted(model, tmp_path):
    gate = Gate(tmp_path / "gate")

    def aborted():
        lines = server.client.get("/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("vtcore:request_success_total") and '"abort"' in line)

    with serving(model, tmp_path, *gate.options) as server:
        gate.shut(lookups=10)
        before = aborted()
        body = {"prompt": "abc", "max_tokens": 400, "ignore_eos": True, "stream": True, "n": 3, "temperature": 1}
        with server.client.stream("POST", TEXT, json=body) as answer:
            next(answer.iter_lines())
        server.wait_for_load(0)
        gate.open()
        server.check_idle()
        assert aborted() == before + 3


def test_what_is_refused_late_leaves_nothing(server, ask):
    ask(TEXT, {"prompt": [97, -5, 98], "echo": True}, 400)
    assert server.held() == (0, 0, 0, 0)


def test_what_the_cache_held_is_told(server, ask):
    body = {"prompt": "a prefix that is longer than one block of the cache, twice over, and then some", "max_tokens": 2, "temperature": 0}
    first, again = ask(TEXT, body), ask(TEXT, body)
    assert again["choices"] == first["choices"]
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    assert ask(TEXT, body | {"cache_salt": "other"})["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert ask(TEXT, body | {"priority": 1}, 400)["error"]["code"] == 400
    assert server.client.post("/reset_prefix_cache").status_code == 404
