"""The sampling fields of a request: OpenAI's, and vLLM's extensions under its names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, Field, model_validator

from vtcore.api.body import Body, one_of
from vtcore.api.errors import ApiError
from vtcore.sampling_params import BIASES, SamplingParams

LONGEST_TEXT = 1 << 22  # characters
MOST_SEQUENCES, MOST_STOPS, MOST_IDS, MOST_LOGPROBS, LONGEST_STOP = 128, 64, 4096, 20, 4096
LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")  # of new tokens: each route has its own name
GENERATION_CONFIG = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")  # what a model's generation_config.json may set

Stop = Annotated[str, Field(max_length=LONGEST_STOP)]
Texts = Annotated[list[Stop], Field(max_length=MOST_STOPS)]
Ids = Annotated[list[int], Field(max_length=MOST_IDS)]


class StreamOptions(Body):
    """What a stream tells besides the text."""

    include_usage: bool = False
    continuous_usage_stats: bool = False


class Sampling(Body):
    """Fields that chat and text completions share. None: not given, so that the model's generation_config.json decides, then OpenAI's
    neutral values."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False, str_max_length=LONGEST_TEXT, protected_namespaces=())

    model: str | None = Field(None, description="the served model's name; empty or absent: the one there is")
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: int | None = Field(None, ge=1, le=MOST_SEQUENCES)
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = Field(None, description="0 and -1: off")
    min_p: float | None = None
    seed: int | None = Field(None, ge=-(1 << 63), lt=1 << 63)
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    stop: Annotated[
        Stop | Texts | None, one_of(f"a text, or a list of at most {MOST_STOPS}, each of at most {LONGEST_STOP} characters")
    ] = None
    stop_token_ids: Ids | None = None
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    min_tokens: int = Field(0, ge=0)
    skip_special_tokens: bool = True
    logit_bias: Annotated[dict[int, float], Field(max_length=BIASES)] | None = None
    allowed_token_ids: Ids | None = None
    bad_words: Texts | None = None
    prompt_logprobs: int | None = Field(None, ge=0, le=MOST_LOGPROBS)
    truncate_prompt_tokens: int | None = Field(
        None, ge=-1, description="keep so many of the prompt's last tokens; -1: as many as leave room for max_tokens"
    )
    priority: int = Field(0, description="the lowest goes first; needs --scheduling-policy priority")
    cache_salt: str | None = Field(None, min_length=1, max_length=1024, description="share the prefix cache under the same salt only")
    skip_reading_prefix_cache: bool | None = Field(None, description="true: compute the whole prompt anew")
    return_token_ids: bool = Field(False, description="add token_ids to choices and prompt_token_ids to the answer")
    return_tokens_as_token_ids: bool = Field(False, description="name tokens in logprobs as token_id:N")
    user: str | None = Field(None, description="accepted, and of no effect")

    @model_validator(mode="before")
    @classmethod
    def limited_by_any_name(cls, given: Any) -> Any:
        """The limit of new tokens holds under the name of another route too, where the own one isn't given."""
        own = [name for name in LIMITS if name in cls.model_fields]
        if not own or not isinstance(given, dict) or any(given.get(name) is not None for name in own):
            return given
        told = [given[name] for name in LIMITS if given.get(name) is not None]
        return {**given, own[0]: told[0]} if told else given

    def sampling_params(self, defaults: Mapping[str, Any], max_tokens: int | None, logprobs: int | None) -> SamplingParams:
        """The request's parameters; `defaults` are those of generation_config.json. Raises ArgumentError for values out of range."""
        given = {n: getattr(self, n) for n in _PASSED if getattr(self, n) is not None}
        chosen = {n: defaults[n] for n in GENERATION_CONFIG if n in defaults and n not in given}
        return SamplingParams(**chosen, **given, max_tokens=max_tokens, logprobs=logprobs)

    def options(self) -> dict[str, Any]:
        """What the engine is told of the request besides its parameters."""
        salt = {} if self.cache_salt is None else {"cache_salt": self.cache_salt}
        return {**salt, "priority": self.priority} if self.priority else salt

    def shortened(self, ids: list[int], longest: int) -> list[int]:
        """A prompt's ids, cut to truncate_prompt_tokens, or to the `longest` that there is room for."""
        most = self.truncate_prompt_tokens
        return ids if most is None else ids[-max(1, longest if most == -1 else most) :]

    def check(self) -> None:
        """ApiError 400 for fields that contradict each other."""
        if self.stream_options is not None and not self.stream:
            raise ApiError(400, "stream_options needs stream: true", "stream_options")
        if self.stream and self.prompt_logprobs is not None:
            raise ApiError(400, "prompt_logprobs come with the whole answer only: leave stream away", "prompt_logprobs")
        if self.truncate_prompt_tokens == 0:
            raise ApiError(
                400, "truncate_prompt_tokens is 0, which leaves no prompt; it must be -1, or at least 1", "truncate_prompt_tokens"
            )
        best = (self.model_extra or {}).get("best_of")
        if best is not None and best != (self.n or 1):
            raise ApiError(400, f"best_of is {best!r:.40}: choosing the best of more sequences than n isn't implemented", "best_of")

    @property
    def usage_in_stream(self) -> bool:
        """Whether the last frame of a stream tells the usage."""
        return self.stream_options is not None and self.stream_options.include_usage

    @property
    def usage_in_frames(self) -> bool:
        """Whether every frame does."""
        return self.usage_in_stream and self.stream_options is not None and self.stream_options.continuous_usage_stats


_PASSED = (
    *("n", "temperature", "top_p", "top_k", "min_p", "seed", "presence_penalty", "frequency_penalty", "repetition_penalty", "stop"),
    *("stop_token_ids", "include_stop_str_in_output", "ignore_eos", "min_tokens", "skip_special_tokens", "logit_bias"),
    *("allowed_token_ids", "bad_words", "prompt_logprobs", "skip_reading_prefix_cache"),
)
