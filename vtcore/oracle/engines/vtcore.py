"""vtcore itself: with other providers, numerics or rounding than the recording's, or the same on another machine."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from typing import Any

import vtcore
from vtcore.llm import LLM
from vtcore.oracle.engines.recording import tokenised_differently
from vtcore.oracle.followed import Followed, NotComparedError, Said, said_of
from vtcore.oracle.model_facts import pieces_of
from vtcore.oracle.observe import Observed
from vtcore.oracle.prompts import Encoded
from vtcore.oracle.recording import Answer, Array
from vtcore.prompts import parse_prompt
from vtcore.sampling_params import SamplingParams

DEFAULTS = {"numerics": "exact", "dtype": "float32", "providers": "portable"}


class VtcoreEngine:
    """A loaded model. `options` are those of LLM; with `hidden` it notes the layers' outputs, op by op, without replays. `decode`: it
    generates along an answer, and goes on behind each token that differs; else one prefill scores all of it."""

    def __init__(self, model: str, *, hidden: bool = False, decode: bool = False, **options: Any) -> None:
        # without a cache of prefixes every token is computed for every prompt, so that whatever is wrong shows, and all layers are seen
        self.options = options | {"enable_prefix_caching": False} | ({"capture": False} if hidden else {})
        self.llm, self.decode = LLM(model, **self.options), decode
        self.observed: Observed | None = None
        if hidden:
            self.observed = Observed(self.llm.model)
            self.llm.engine.runner.model = self.observed

    def describe(self) -> Mapping[str, str]:
        """Versions, and how it computes."""
        import numpy as np

        said = {n: str(self.options.get(n) or default) for n, default in DEFAULTS.items()}
        return {"name": "vtcore", "version": vtcore.__version__, "numpy": np.__version__, "machine": platform.machine(), **said}

    def answer(self, prompt: Encoded, max_tokens: int, count: int) -> Answer:
        """Greedy, until an end token or `max_tokens`; the `count` likeliest alternatives of each token."""
        asked = SamplingParams(temperature=0, max_tokens=max_tokens, logprobs=count)
        (output,) = self.llm.generate([{"prompt_token_ids": prompt.prompt_token_ids}], asked, use_tqdm=False)
        said = output.outputs[0]
        told = [list(row.items())[:count] for row in said.logprobs or ()]
        return Answer(
            prompt.name, prompt.text, prompt.special, tuple(prompt.prompt_token_ids), tuple(said.token_ids),
            _table([[i for i, _ in row] for row in told], "int32"),
            _table([[one.logprob for _, one in row] for row in told], "float32"),
            str(said.finish_reason), None if self.observed is None else self.observed.take(),
        )  # fmt: skip

    def check(self, prompt: Encoded, max_tokens: int) -> None:
        """Raises ArgumentError for a prompt that can't be answered."""
        self.llm.take(parse_prompt(prompt.prompt_token_ids), SamplingParams(temperature=0, max_tokens=max_tokens))

    def follow(self, answer: Answer) -> Followed:
        """Along one answer. Raises NotComparedError where its tokenizer gives the text other tokens."""
        tokenizer = self.llm.engine.intake.tokenizer
        if tokenizer is not None and answer.text is not None:
            ids = tokenizer.encode(answer.text, add_special_tokens=answer.special)
            if tuple(ids) != answer.prompt_token_ids:
                raise NotComparedError(tokenised_differently(answer.prompt_token_ids, ids))
        return self._continue(answer) if self.decode else self._score(answer)

    def _continue(self, answer: Answer) -> Followed:
        said, runs = list[Said](), 0
        while len(said) < len(answer.token_ids):
            said += self._generated(answer, len(said))
            runs += 1
        return Followed(tuple(said), f"generated in {runs} run{'s' * (runs != 1)}")

    def _generated(self, answer: Answer, at: int) -> Iterator[Said]:
        """From a position on, up to the first token that differs."""
        prompt = Encoded(answer.name, None, False, [*answer.prompt_token_ids, *answer.token_ids[:at]])
        own = self.answer(prompt, len(answer.token_ids) - at, answer.top_ids.shape[1])
        for token, wanted, ids, values in zip(own.token_ids, answer.token_ids[at:], own.top_ids, own.top_logprobs, strict=False):
            yield Said(token, dict(zip(ids.tolist(), values.tolist(), strict=True)), self._spell(token))
            if token != wanted:
                return

    def _score(self, answer: Answer) -> Followed:
        logits = self.llm.logits(answer.forced)[len(answer.prompt_token_ids) - 1 :]
        return Followed(said_of(logits, answer, self._spell), "one prefill", hidden=None if self.observed is None else self.observed.take())

    def _spell(self, token: int) -> str | None:
        return (
            pieces.decode("utf-8", "backslashreplace")
            if (pieces := pieces_of(self.llm.engine.intake.tokenizer, [token]).get(token))
            else None
        )

    def close(self) -> None:
        """Stop its threads."""
        self.llm.close()


def _table(rows: list[list[Any]], dtype: str) -> Array:
    import numpy as np

    return np.array(rows, dtype)
