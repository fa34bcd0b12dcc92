"""A span a request, for OpenTelemetry. Needs the extra `otel`."""

from __future__ import annotations

from threading import Thread

from opentelemetry import context, propagate
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.util.types import AttributeValue
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from vtcore import __version__
from vtcore.outputs import Timings
from vtcore.sampling_params import SamplingParams

CLOSE_SECONDS = 3.0


class Tracing:
    """Spans named llm_request, with vLLM's attributes, under the span that a request's header `traceparent` names."""

    def __init__(self, exporter: SpanExporter, model: str) -> None:
        self.model, self.middleware = model, Traced
        self._provider = TracerProvider(
            resource=Resource.create({"service.name": "vtcore", "service.version": __version__}),
            shutdown_on_exit=False,  # `close` is, and it takes no longer than it may
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("vtcore.server")

    def begin(self, request_id: str, params: SamplingParams) -> Span:
        """A request arrives."""
        said: dict[str, AttributeValue | None] = {"id": request_id, "max_tokens": params.max_tokens, "n": params.n}
        said |= {"temperature": params.temperature, "top_p": params.top_p}
        attributes: dict[str, AttributeValue] = {f"gen_ai.request.{n}": v for n, v in said.items() if v is not None}
        attributes["gen_ai.response.model"] = self.model
        return self._tracer.start_span("llm_request", kind=SpanKind.SERVER, attributes=attributes)

    def end(self, span: Span, prompt_tokens: int, completion_tokens: int, seconds: float, timings: Timings, fault: str | None) -> None:
        """A request has ended, or failed by a fault."""
        span.set_attribute("gen_ai.usage.prompt_tokens", prompt_tokens)
        span.set_attribute("gen_ai.usage.completion_tokens", completion_tokens)
        for name, value in _latencies(seconds, timings).items():
            span.set_attribute(f"gen_ai.latency.{name}", value)
        if fault is not None:
            span.set_status(Status(StatusCode.ERROR, fault))
        span.end()

    def close(self) -> None:
        """Send what is left. What a collector hasn't taken within CLOSE_SECONDS is lost: nobody's end waits for one that is down."""
        sending = Thread(target=self._provider.shutdown, daemon=True)
        sending.start()
        sending.join(CLOSE_SECONDS)


def _latencies(seconds: float, timings: Timings) -> dict[str, float]:
    """In seconds. What a request did not come to is left out."""
    scheduled, first, finished = timings.first_scheduled, timings.first_token, timings.finished
    told: dict[str, float | None] = {"e2e": seconds, "time_in_queue": scheduled, "time_to_first_token": first}
    told["time_in_model_prefill"] = None if first is None or scheduled is None else first - scheduled
    told["time_in_model_decode"] = None if finished is None or first is None else finished - first
    told["time_in_model_inference"] = None if finished is None or scheduled is None else finished - scheduled
    return {name: value for name, value in told.items() if value is not None}


def to(endpoint: str, model: str) -> Tracing:
    """Spans that are sent to a collector by OTLP over HTTP, such as http://localhost:4318/v1/traces."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return Tracing(OTLPSpanExporter(endpoint=endpoint), model)


class Traced:
    """An ASGI middleware: what a request does is under the span that its headers name."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on."""
        parent = propagate.extract(dict(Headers(scope=scope))) if scope["type"] == "http" else context.get_current()
        token = context.attach(parent)
        try:
            await self.app(scope, receive, send)
        finally:
            context.detach(token)
