"""Prometheus metrics under vLLM's names, with the prefix `vtcore:` or `vllm:`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

LATENCY = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
FIRST = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560)
BETWEEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
TOKENS = tuple(m * 10**e for e in range(6) for m in (1, 2, 5))
GAUGES = {"running": "num_requests_running", "waiting": "num_requests_waiting", "kv_usage": "kv_cache_usage_perc"}
# A second series for each counter, which dashboards of vLLM's don't read. The library annotates it not, hence the ignore.
disable_created_metrics()  # type: ignore[no-untyped-call]
TOTALS = {"preemptions": "num_preemptions", "prefix_queries": "prefix_cache_queries", "prefix_hits": "prefix_cache_hits"}


class Metrics:
    """What is counted of the requests of one server, labelled with the model's name."""

    def __init__(self, model: str, prefix: str) -> None:
        self.model, self.prefix, self.registry = model, prefix, CollectorRegistry()
        self.engine = EngineMetrics(model, prefix)
        self.registry.register(self.engine)
        self.prompt_tokens = self._counter("prompt_tokens", "prompt tokens processed")
        self.generation_tokens = self._counter("generation_tokens", "tokens generated")
        self.success = self._counter("request_success", "sequences of requests by how they ended", "finished_reason")
        self.rejections = self._counter("admission_rejections", "requests refused because too many wait", "reason")
        self.first_token = self._histogram("time_to_first_token_seconds", "from arrival to the first token", FIRST)
        self.between_tokens = self._histogram("inter_token_latency_seconds", "from one token to the next", BETWEEN)
        self.per_token = self._histogram("request_time_per_output_token_seconds", "of a request, after its first token", BETWEEN)
        self.whole = self._histogram("e2e_request_latency_seconds", "from arrival to the end", LATENCY)
        self.queued = self._histogram("request_queue_time_seconds", "from arrival to the first step", LATENCY)
        self.prompt_lengths = self._histogram("request_prompt_tokens", "prompt tokens of a request", TOKENS)
        self.lengths = self._histogram("request_generation_tokens", "generated tokens of a request", TOKENS)
        self.sequences = self._histogram("request_params_n", "the parameter n", (1, 2, 5, 10, 20))
        self.most_tokens = self._histogram("request_params_max_tokens", "the parameter max_tokens", TOKENS)

    def text(self, stats: Mapping[str, Any] | None, report: Mapping[str, Any] | None) -> bytes:
        """The exposition; what the engine says of itself is left out where it says nothing."""
        self.engine.stats, self.engine.report = stats, report
        return generate_latest(self.registry)

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        made = Counter(f"{self.prefix}:{name}", about, ["model_name", *labels], registry=self.registry)
        return made if labels else made.labels(self.model)

    def _histogram(self, name: str, about: str, buckets: Sequence[float]) -> Histogram:
        made = Histogram(f"{self.prefix}:{name}", about, ["model_name"], registry=self.registry, buckets=buckets)
        return made.labels(self.model)


class EngineMetrics(Collector):
    """What the engine knows: asked for at each scrape."""

    def __init__(self, model: str, prefix: str) -> None:
        self.model, self.prefix = model, prefix
        self.stats: Mapping[str, Any] | None = None
        self.report: Mapping[str, Any] | None = None

    def collect(self) -> Iterator[Metric]:
        """Gauges and totals, and where ops ran."""
        up = GaugeMetricFamily(f"{self.prefix}:engine_up", "whether the engine answers", labels=["model_name"])
        up.add_metric([self.model], float(self.stats is not None))
        yield up
        for key, value in (self.stats or {}).items():
            if key in GAUGES:
                gauge = GaugeMetricFamily(f"{self.prefix}:{GAUGES[key]}", key, labels=["model_name"])
                gauge.add_metric([self.model], value)
                yield gauge
            elif key in TOTALS:
                total = CounterMetricFamily(f"{self.prefix}:{TOTALS[key]}", key, labels=["model_name"])
                total.add_metric([self.model], value)
                yield total
        yield from self._ops()

    def _ops(self) -> Iterator[Metric]:
        """vtcore's own, whatever the prefix: which provider ran what, and why not another."""
        ran = CounterMetricFamily("vtcore:op_calls", "calls of an op by the provider that ran it", labels=["op", "provider"])
        declined = CounterMetricFamily("vtcore:op_declines", "declines by reason", labels=["op", "provider", "reason"])
        for row in (self.report or {}).get("ran", ()):
            ran.add_metric([row["op"], row["provider"]], row["calls"])
        for row in (self.report or {}).get("declined", ()):
            declined.add_metric([row["op"], row["provider"], row["reason"]], row["calls"])
        yield ran
        yield declined
