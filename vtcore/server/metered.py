"""An engine whose requests are counted."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from vtcore.errors import QueueFullError
from vtcore.outputs import Delta, Logprobs
from vtcore.sampling_params import SamplingParams
from vtcore.server.metrics import Metrics
from vtcore.server.remote import RemoteEngine
from vtcore.server.remote_stream import RemoteStream

if TYPE_CHECKING:
    from vtcore.server.tracing import Tracing


class MeteredClient:
    """A client of the engine for the routes."""

    def __init__(self, engine: RemoteEngine, metrics: Metrics, tracing: Tracing | None = None) -> None:
        self.engine, self.metrics, self.tracing, self.open = engine, metrics, tracing, 0

    @property
    def max_model_len(self) -> int:
        """As the engine told when it was ready."""
        return int(self.engine.info["max_model_len"])

    async def submit(self, prompt: Sequence[int], sampling_params: SamplingParams, **options: Any) -> MeteredStream:
        """As RemoteEngine's."""
        arrived = time.monotonic()
        self.open += 1  # from now on: an engine that hangs takes none, and has them all the same
        try:
            stream = await self.engine.submit(prompt, sampling_params, **options)
        except BaseException as refused:
            self.open -= 1
            if isinstance(refused, QueueFullError):
                self.metrics.rejections.labels(self.metrics.model, "queue").inc()
            raise
        self.metrics.sequences.observe(sampling_params.n)
        if sampling_params.max_tokens is not None:
            self.metrics.most_tokens.observe(sampling_params.max_tokens)
        return MeteredStream(stream, self, arrived, sampling_params)


class MeteredStream:
    """A stream that tells the metrics what comes, and how it ended."""

    def __init__(self, stream: RemoteStream, client: MeteredClient, arrived: float, params: SamplingParams) -> None:
        self.stream, self.client, self.metrics, self.arrived = stream, client, client.metrics, arrived
        self.tokens, self.ended, self.left = 0, False, params.n  # sequences that have not ended
        self.fault: str | None = None  # what it failed by
        self.span = client.tracing.begin(stream.request_id, params) if client.tracing else None
        self.times: dict[int, float] = {}  # of a sequence's last token

    @property
    def request_id(self) -> str:
        """The request's name in the engine."""
        return self.stream.request_id

    @property
    def prompt_token_ids(self) -> list[int]:
        """What was asked."""
        return self.stream.prompt_token_ids

    @property
    def prompt_logprobs(self) -> list[Logprobs | None]:
        """Once it has ended."""
        return self.stream.prompt_logprobs

    @property
    def num_cached_tokens(self) -> int | None:
        """Once it has ended."""
        return self.stream.num_cached_tokens

    def abort(self) -> None:
        """End it; its sequences that had not ended count as aborted."""
        self.stream.abort()
        self._end("abort")

    def __aiter__(self) -> AsyncIterator[Delta]:
        return self

    async def __anext__(self) -> Delta:
        try:
            delta = await self.stream.__anext__()
        except StopAsyncIteration:
            self._done()
            raise
        except Exception as error:
            self.fault = str(error) or type(error).__name__
            self._end("error")
            raise
        self._count(delta)
        return delta

    def _count(self, delta: Delta) -> None:
        now = time.monotonic()
        if delta.token_ids:
            if not self.times:
                self.metrics.first_token.observe(now - self.arrived)
            elif delta.index in self.times:
                self.metrics.between_tokens.observe(now - self.times[delta.index])
            self.times[delta.index] = now
            self.tokens += len(delta.token_ids)
            self.metrics.generation_tokens.inc(len(delta.token_ids))
        if delta.finish_reason is not None:
            self.left -= 1
            self.metrics.success.labels(self.metrics.model, delta.finish_reason).inc()

    def _done(self) -> None:
        """All its sequences have ended: what their finish_reasons counted is not counted again."""
        if not self.ended:
            self.ended = True
            self.client.open -= 1
            self._observe()

    def _end(self, reason: str) -> None:
        if not self.ended:
            self.metrics.success.labels(self.metrics.model, reason).inc(self.left)
            self._done()

    def _observe(self) -> None:
        timings, metrics = self.stream.timings, self.metrics
        metrics.prompt_tokens.inc(len(self.prompt_token_ids))
        metrics.prompt_lengths.observe(len(self.prompt_token_ids))
        metrics.lengths.observe(self.tokens)
        metrics.whole.observe(seconds := time.monotonic() - self.arrived)
        if self.span is not None and self.client.tracing is not None:
            self.client.tracing.end(self.span, len(self.prompt_token_ids), self.tokens, seconds, timings, self.fault)
        if timings.first_scheduled is not None:
            metrics.queued.observe(timings.first_scheduled)
        if timings.tokens_per_second:
            metrics.per_token.observe(1 / timings.tokens_per_second)
