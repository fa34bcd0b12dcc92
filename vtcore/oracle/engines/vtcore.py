"""vtcore itself: with other providers, numerics or rounding than the recording's, or the same on another machine."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

import vtcore
from vtcore.llm import LLM
from vtcore.oracle.followed import Followed, said_of
from vtcore.oracle.model_facts import pieces_of
from vtcore.oracle.observe import Observed
from vtcore.oracle.prompts import Encoded
from vtcore.oracle.recording import Answer, Array
from vtcore.sampling_params import SamplingParams

DEFAULTS = {"numerics": "exact", "dtype": "float32", "providers": "portable"}


class VtcoreEngine:
    """A loaded model. `options` are those of LLM; with `hidden` it notes the layers' outputs, op by op, without replays."""

    def __init__(self, model: str, *, hidden: bool = False, **options: Any) -> None:
        # without a cache of prefixes every token is computed for every prompt, so that whatever is wrong shows, and all layers are seen
        self.options = options | {"enable_prefix_caching": False} | ({"capture": False} if hidden else {})
        self.llm = LLM(model, **self.options)
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
        (output,) = self.llm.generate([{"prompt_token_ids": prompt.prompt_token_ids}], asked)
        said = output.outputs[0]
        told = [list(row.items())[:count] for row in said.logprobs or ()]
        return Answer(
            prompt.name, prompt.text, prompt.special, tuple(prompt.prompt_token_ids), tuple(said.token_ids),
            _table([[i for i, _ in row] for row in told], "int32"),
            _table([[one.logprob for _, one in row] for row in told], "float32"),
            str(said.finish_reason), None if self.observed is None else self.observed.take(),
        )  # fmt: skip

    def follow(self, answer: Answer) -> Followed:
        """One prefill of the prompt and the answer."""
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
