"""A text completion as it is answered, whole and in frames. The choices of prompt p are those from p * n on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from vtcore.api.answer import Answer
from vtcore.api.completion import CompletionRequest
from vtcore.api.gathered import Sequence
from vtcore.api.logprobs import prompt_logprobs
from vtcore.outputs import Delta

KIND = "text_completion"


@dataclass
class CompletionAnswer(Answer):
    """To one prompt or several."""

    request: CompletionRequest
    texts: list[str] = field(default_factory=list)  # the prompts as echo repeats them
    offsets: dict[int, int] = field(default_factory=lambda: defaultdict(int))  # of a choice: characters of its tokens so far

    async def whole(self) -> dict[str, Any]:
        """The object text_completion, when it is complete."""
        await self.finished()
        choices = [self._choice(p, c) for p, gathered in enumerate(self.gathered) for c in gathered.sequences]
        return {**self.head(KIND), "choices": choices, "usage": self.usage()}

    async def frames(self) -> AsyncIterator[dict[str, Any]]:
        """Objects text_completion: the prompt first if it is to be repeated, then what is added, at last the usage if asked for."""
        if self.request.echo:
            for p, text in enumerate(self.texts):
                for index in range(self.sequences):
                    told = {"index": p * self.sequences + index, "text": text, "logprobs": None, "finish_reason": None}
                    yield self.frame(KIND, [told])
        async for p, delta in self.deltas():
            if delta.text or delta.finish_reason is not None or delta.logprobs or self.request.return_token_ids:
                yield self.frame(KIND, [self._added(p, delta)])
        if self.request.usage_in_stream:
            yield self.last_frame(KIND)

    def _choice(self, p: int, choice: Sequence) -> dict[str, Any]:
        told = {
            "index": p * self.sequences + choice.index,
            "text": (self.texts[p] if self.request.echo else "") + choice.text,
            "logprobs": self._logprobs(p, choice),
            "finish_reason": choice.finish_reason,
            "stop_reason": choice.stop_reason,
        }
        if self.request.prompt_logprobs is not None:
            told["prompt_logprobs"] = prompt_logprobs(self.sources[p].prompt_logprobs)
        if self.request.return_token_ids:
            told |= {"token_ids": choice.token_ids, "prompt_token_ids": self.sources[p].prompt_token_ids}
        return told

    def _logprobs(self, p: int, choice: Sequence) -> dict[str, Any] | None:
        asked, source = self.request.logprobs, self.sources[p]
        if asked is None:
            return None
        if self.request.echo:
            return self.named.text([*source.prompt_logprobs, *choice.logprobs], [*source.prompt_token_ids, *choice.token_ids], asked)
        return self.named.text(choice.logprobs, choice.token_ids, asked)

    def _added(self, p: int, delta: Delta) -> dict[str, Any]:
        index, asked = p * self.sequences + delta.index, self.request.logprobs
        told: dict[str, Any] = {"index": index, "text": delta.text, "logprobs": None, "finish_reason": delta.finish_reason}
        if asked is not None:
            told["logprobs"] = self.named.text(delta.logprobs or [], delta.token_ids, asked, self.offsets[index])
            self.offsets[index] += sum(map(len, told["logprobs"]["tokens"]))
        if delta.finish_reason is not None:
            told["stop_reason"] = delta.stop_reason
        return {**told, "token_ids": delta.token_ids} if self.request.return_token_ids else told
