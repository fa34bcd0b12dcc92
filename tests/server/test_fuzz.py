"""Bodies of all kinds, over a socket: each is answered, none by a status from 500 on, and nothing of it is left."""

import json

import httpx
import pytest
from fuzz_server import fuzz
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.server.conftest import SECONDS, serving
from vtcore.api.chat import ChatRequest
from vtcore.api.completion import CompletionRequest
from vtcore.api.responses import ResponsesRequest

ROUTES = {"/v1/chat/completions": ChatRequest, "/v1/completions": CompletionRequest, "/v1/responses": ResponsesRequest}
NEEDED = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 3},
    "/v1/completions": {"prompt": "hi", "max_tokens": 3},
    "/v1/responses": {"input": "hi", "max_output_tokens": 3},
}
NUMBERS = st.integers(-3, 5) | st.floats(-2, 3) | st.sampled_from([2**31, -(2**63) - 1, 2**64, 1e300, 0.999, 255, 300])
WORDS = st.text(max_size=8) | st.sampled_from(["a", "<end>", "\ud800", "auto", "none", "user", "\0"])
ATOMS = st.none() | st.booleans() | NUMBERS | WORDS
KEYS = WORDS | st.integers(-1, 400).map(str)
VALUES = st.recursive(ATOMS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6)


@pytest.fixture(scope="module")
def fuzzed(model, tmp_path_factory):
    with serving(model, tmp_path_factory.mktemp("s"), at_port=True) as made:
        yield made
        made.check_idle()


@st.composite
def bodies(draw):
    """A request that could be answered, with one to three of its fields, or others, set to anything."""
    route = draw(st.sampled_from(sorted(ROUTES)))
    names = st.sampled_from([*ROUTES[route].model_fields, "response_format", "best_of", "unknown"])
    return route, NEEDED[route] | draw(st.dictionaries(names, VALUES, min_size=1, max_size=3))


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(asked=bodies())
def test_fields_of_any_value(fuzzed, asked):
    route, body = asked
    with fuzzed.client.stream("POST", route, content=json.dumps(body), headers={"Content-Type": "application/json"}) as answer:
        answer.read()
    assert answer.status_code in (200, 400, 404), (answer.status_code, answer.text[:300])
    if answer.status_code == 200 and answer.headers["content-type"].startswith("text/event-stream"):
        last = answer.text.rstrip().split("\n")[-1]
        assert last == "data: [DONE]" or json.loads(last.removeprefix("data: "))["type"].startswith("response.")
    elif answer.status_code != 200:
        assert answer.json()["error"]["code"] == answer.status_code


@settings(max_examples=50, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(raw=st.binary(max_size=200), route=st.sampled_from(sorted(ROUTES)))
def test_bytes_of_any_value(fuzzed, raw, route):
    answer = fuzzed.client.post(route, content=raw, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(route=st.sampled_from(sorted(ROUTES)), read=st.integers(0, 3), stream=st.booleans())
def test_readers_that_leave_at_any_time(fuzzed, route, read, stream):
    limit = "max_output_tokens" if route == "/v1/responses" else "max_tokens"
    body = NEEDED[route] | {"stream": stream, "ignore_eos": True, limit: 200}
    try:
        with fuzzed.client.stream("POST", route, json=body, timeout=SECONDS if read else 0.01) as answer:
            for _, _ in zip(range(read), answer.iter_bytes(), strict=False):
                pass
    except httpx.TimeoutException:
        assert read == 0


def test_the_description_is_kept(fuzzed):
    statuses = fuzz(fuzzed.address, 60, "-")
    assert statuses.total() > 40
    described = fuzzed.client.get("/openapi.json").json()["paths"]["/v1/completions"]["post"]["responses"]
    assert set(described) == {"200", "4XX", "503"}
    assert {"POST /v1/chat/completions", "POST /tokenize", "GET /stats"} <= {operation for operation, _ in statuses}
