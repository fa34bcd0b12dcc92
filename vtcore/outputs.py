"""What a request gives back: vLLM's field names."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Logprob:
    """One token's log probability under the model's own logits, before penalties, masks and temperature."""

    logprob: float
    rank: int | None = None  # 1 for the likeliest; of equals, all but the first count as behind
    decoded_token: str | None = None


Logprobs = dict[int, Logprob]  # the chosen token first, then the likeliest in falling order


@dataclass(frozen=True)
class Delta:
    """What one step added to one sequence. `text` may lag behind `token_ids`: half a character, or what may begin a stop text, waits."""

    request_id: str
    index: int  # which of the request's n sequences
    text: str
    token_ids: list[int]
    logprobs: list[Logprobs] | None  # one a token, if asked for
    finish_reason: str | None  # "stop" or "length" with the last delta, else None
    stop_reason: int | str | None  # the stop token's id or the stop text; None for end of sequence and for length


@dataclass(frozen=True)
class CompletionOutput:
    """One sequence of a finished or running request."""

    index: int
    text: str
    token_ids: list[int]
    cumulative_logprob: float | None  # the sum over chosen tokens; None unless logprobs were asked for
    logprobs: list[Logprobs] | None
    finish_reason: str | None = None
    stop_reason: int | str | None = None


@dataclass(frozen=True)
class Timings:
    """Seconds since the request was submitted. None: it did not come to that."""

    first_scheduled: float | None = None
    first_token: float | None = None
    finished: float | None = None
    tokens_per_second: float | None = None  # of the longest sequence, after its first token
    num_preemptions: int = 0


@dataclass(frozen=True)
class RequestOutput:
    """A prompt and what came of it."""

    request_id: str
    prompt: str | None  # None when it was given as token ids
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    finished: bool
    prompt_logprobs: list[Logprobs | None] | None = None  # one a prompt token; the first, which follows nothing, is None
    metrics: Timings = Timings()
    num_cached_tokens: int | None = None  # of the prompt, that the first sequence found in the cache; None: it has not begun

    def json(self) -> dict[str, Any]:
        """As plain data: the first sequence's token_ids, text, finish_reason and stop_reason, with the prompt's ids and the timings."""
        first = self.outputs[0]
        return {
            "prompt_token_ids": self.prompt_token_ids,
            "token_ids": first.token_ids,
            "text": first.text,
            "finish_reason": first.finish_reason,
            "stop_reason": first.stop_reason,
            "timings": asdict(self.metrics),
        }
