"""A text completion as it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, StrictInt

from vtcore.api.body import one_of
from vtcore.api.constraints import refuse_unserved
from vtcore.api.errors import ApiError
from vtcore.api.sampling import MOST_LOGPROBS, Sampling
from vtcore.sampling_params import SamplingParams

MAX_TOKENS, MOST_PROMPTS = 16, 1024  # so many sequences too

TokenIds = list[StrictInt]
Prompts = Annotated[
    str | TokenIds | Annotated[list[str], Field(max_length=MOST_PROMPTS)] | Annotated[list[TokenIds], Field(max_length=MOST_PROMPTS)],
    one_of(f"a text, token ids, or a list of at most {MOST_PROMPTS} of one of these"),
]


class CompletionRequest(Sampling):
    """POST /v1/completions."""

    prompt: Prompts
    max_tokens: int | None = Field(MAX_TOKENS, ge=0, description="0 with echo and logprobs scores the prompt")
    logprobs: int | None = Field(None, ge=0, le=MOST_LOGPROBS)
    echo: bool = Field(False, description="put the prompt before the text, and its tokens into logprobs")
    add_special_tokens: bool = Field(True, description="around prompts that are text")

    def check(self) -> None:
        """ApiError 400 for what can't be honoured, and for fields that contradict each other."""
        refuse_unserved(self.model_extra)
        super().check()
        if not self.prompts():
            raise ApiError(400, "prompt is empty; it must be a text, token ids, or a list of either", "prompt")
        if (count := len(self.prompts()) * (self.n or 1)) > MOST_PROMPTS:
            raise ApiError(
                400, f"{len(self.prompts())} prompts with n {self.n} are {count} sequences; at most {MOST_PROMPTS} are allowed", "n"
            )
        if self.echo and self.stream and self.logprobs is not None:
            raise ApiError(400, "echo with logprobs comes as a whole answer only: leave stream away", "echo")

    def prompts(self) -> list[str | TokenIds]:
        """One or several."""
        given = self.prompt
        if isinstance(given, str):
            return [given]
        ids = [i for i in given if isinstance(i, int)]
        return [ids] if ids else [p for p in given if not isinstance(p, int)]

    def sampling_params(self, defaults: Mapping[str, Any], max_tokens: int | None, logprobs: int | None) -> SamplingParams:
        """The request's parameters. With echo the prompt's tokens are scored as the text's are."""
        if self.echo and logprobs is not None and self.prompt_logprobs is None:
            return self.model_copy(update={"prompt_logprobs": logprobs}).sampling_params(defaults, max_tokens, logprobs)
        return super().sampling_params(defaults, max_tokens, logprobs)
