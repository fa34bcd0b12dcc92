"""What a server tells of its requests elsewhere: a span each, and a line each."""

import json
import threading

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from starlette.testclient import TestClient

from tests.server.conftest import SECONDS, serving
from tests.server.stand_ins import Engine
from vtcore.cli import main
from vtcore.errors import EngineDeadError
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.sampling_params import SamplingParams
from vtcore.server import tracing
from vtcore.server.app import application
from vtcore.server.config import ServerConfig
from vtcore.server.tracing import Tracing
from vtcore.text.load import find_tokenizer

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
BODY = {"prompt": "abc", "max_tokens": 3, "temperature": 0.5, "seed": 1}


@pytest.fixture
def traced(model):
    exporter, engine = InMemorySpanExporter(), Engine()
    checkpoint, told = open_checkpoint(model), Tracing(exporter, "tiny")
    app = application(engine, checkpoint, find_tokenizer(checkpoint), ServerConfig(names=["tiny"]), told)

    def spans():
        told.close()
        return exporter.get_finished_spans()

    with TestClient(app) as client:
        yield client, engine, spans


def test_a_span_is_under_the_callers_and_tells_of_the_request(traced):
    client, _, spans = traced
    assert client.post("/v1/completions", json=BODY, headers={"traceparent": f"00-{TRACE}-{PARENT}-01"}).status_code == 200
    (span,) = spans()
    assert (span.name, span.kind, span.status.status_code) == ("llm_request", SpanKind.SERVER, StatusCode.UNSET)
    assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, PARENT)
    told = dict(span.attributes)
    assert told.pop("gen_ai.request.id").startswith("cmpl-")
    assert told.pop("gen_ai.latency.e2e") > 0
    assert told == pytest.approx(
        {
            "gen_ai.request.max_tokens": 3, "gen_ai.request.n": 1, "gen_ai.request.temperature": 0.5, "gen_ai.request.top_p": 1.0,
            "gen_ai.response.model": "tiny", "gen_ai.usage.prompt_tokens": 3, "gen_ai.usage.completion_tokens": 1,
            "gen_ai.latency.time_in_queue": 0.1, "gen_ai.latency.time_to_first_token": 0.3, "gen_ai.latency.time_in_model_prefill": 0.2,
            "gen_ai.latency.time_in_model_decode": 0.3, "gen_ai.latency.time_in_model_inference": 0.5,
        }
    )  # fmt: skip


def test_a_fault_is_the_spans_status(traced):
    client, engine, spans = traced
    engine.fault = EngineDeadError("gone")
    assert client.post("/v1/completions", json=BODY).status_code == 503
    (span,) = spans()
    assert (span.status.status_code, span.status.description, span.parent) == (StatusCode.ERROR, "gone", None)


def test_nobodys_end_waits_for_a_collector_that_is_down(monkeypatch):
    monkeypatch.setattr(tracing, "CLOSE_SECONDS", 0.01)
    answers, closed = threading.Event(), threading.Event()

    class Down(InMemorySpanExporter):
        def export(self, spans):
            answers.wait()
            return super().export(spans)

    def use():
        told = Tracing(Down(), "tiny")
        told.begin("a", SamplingParams()).end()
        told.close()
        closed.set()

    using = threading.Thread(target=use, daemon=True)
    using.start()
    try:
        assert closed.wait(SECONDS)
    finally:
        answers.set()
        using.join()


def test_a_line_of_json_a_request(model, tmp_path):
    with serving(model, tmp_path, "--log-format", "json") as server:
        server.client.post("/v1/completions", json=BODY | {"ignore_eos": True}, headers={"X-Request-Id": 'a"b'})
        with server.client.stream("POST", "/v1/responses", json={"input": "a", "max_output_tokens": 2, "stream": True}) as answer:
            answer.read()
        server.client.post("/v1/completions", json={"prompt": 3})
        server.stop()
        lines = [json.loads(line) for line in server.said().splitlines()]
    told = [line for line in lines if line.get("method") == "POST"]
    assert [(line["route"], line["status"]) for line in told] == [
        ("/v1/completions", 200),
        ("/v1/responses", 200),
        ("/v1/completions", 400),
    ]
    assert (told[0]["request_id"], told[0]["prompt_tokens"], told[0]["completion_tokens"]) == ('a"b', 3, 3)
    assert told[0]["seconds"] > 0
    assert "prompt_tokens" not in told[2]
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)


def test_where_spans_go_must_be_a_url(model, capsys):
    assert main(["serve", str(model), "--otlp-traces-endpoint", "localhost"]) == 2
    assert "it must be a URL" in capsys.readouterr().err
