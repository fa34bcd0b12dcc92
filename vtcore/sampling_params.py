"""How one request's tokens are chosen, and when it ends: vLLM's names and defaults, every rule checked where the object is built."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vtcore.errors import ArgumentError
from vtcore.formats.metadata import short

GREEDY = 1e-5  # a temperature under this means the most likely token
COLDEST = 0.01  # a sampling temperature is at least this: under it float32 logits overflow
HOTTEST = 1e6  # far beyond it, float32 can't tell a masked logit from others
WEAKEST, STRONGEST = 1e-3, 1e3  # of repetition penalties: logits stay finite in float32
SEEDS = (-(1 << 63), (1 << 63) - 1)
SEQUENCES = 16384  # that one request may ask for
BIASES = 1024  # entries that a logit_bias may have


@dataclass(frozen=True)
class SamplingParams:
    """Frozen once built. What is normalised then: `stop` to a tuple, top_k -1 to 0, seed -1 to None, a temperature in [1e-5, 0.01)
    to 0.01, and under 1e-5 (greedy) top_p to 1, top_k and min_p to 0. Token ids are checked against the vocabulary at submit."""

    n: int = 1  # sequences for the prompt; a seeded one's i-th takes seed + i
    presence_penalty: float = 0.0  # [-2, 2]: taken off every logit whose token was generated
    frequency_penalty: float = 0.0  # [-2, 2]: the same, times how often
    repetition_penalty: float = 1.0  # [0.001, 1000]: divides positive, multiplies negative logits of what prompt or output hold
    temperature: float = 1.0  # [0, 1e6]
    top_p: float = 1.0  # (0, 1]
    top_k: int = 0  # 0 and -1: off
    min_p: float = 0.0  # [0, 1]: drops what is less likely than this part of the likeliest
    seed: int | None = None  # None and -1: drawn from the system when the request is submitted
    stop: str | Iterable[str] | None = None  # texts that end the sequence
    stop_token_ids: Iterable[int] | None = None
    ignore_eos: bool = False
    max_tokens: int | None = 16  # at most what the context leaves; None: until it is full; 0: nothing is generated (to score a prompt)
    min_tokens: int = 0  # before so many, no end-of-sequence or stop token is chosen and no stop text looked for
    logprobs: int | None = None  # alternatives to report for each generated token; -1: the whole vocabulary
    prompt_logprobs: int | None = None  # the same for each token of the prompt
    logit_bias: Mapping[int, float] | None = None  # token id -> [-100, 100]
    allowed_token_ids: Iterable[int] | None = None
    bad_words: Iterable[str] | None = None
    include_stop_str_in_output: bool = False
    skip_special_tokens: bool = True
    detokenize: bool = True
    skip_reading_prefix_cache: bool | None = None  # True: compute the whole prompt anew; None: where prompt_logprobs are asked for

    def __post_init__(self) -> None:
        self._numbers()
        self._sequences()
        for name in ("ignore_eos", "include_stop_str_in_output", "skip_special_tokens", "detokenize"):
            if not isinstance(value := getattr(self, name), bool):
                raise ArgumentError(f"{name} is {value!r}; it must be True or False")
        if self.skip_reading_prefix_cache is not None and not isinstance(self.skip_reading_prefix_cache, bool):
            raise ArgumentError(f"skip_reading_prefix_cache is {self.skip_reading_prefix_cache!r:.80}; it must be True, False or None")
        self._together()
        if self.greedy:
            self._set(temperature=0.0, top_p=1.0, top_k=0, min_p=0.0)
        elif self.temperature < COLDEST:
            self._set(temperature=COLDEST)

    @property
    def greedy(self) -> bool:
        """Whether the most likely token is taken."""
        return self.temperature < GREEDY

    @property
    def penalised(self) -> bool:
        """Whether any penalty changes logits."""
        return bool(self.presence_penalty or self.frequency_penalty or self.repetition_penalty != 1.0)

    def token_ids(self) -> Iterable[tuple[str, int]]:
        """Every token id that these parameters name, with the parameter's name, to be held against a vocabulary."""
        for name in ("stop_token_ids", "allowed_token_ids", "logit_bias"):
            yield from ((name, i) for i in getattr(self, name) or ())

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _numbers(self) -> None:
        self._set(
            n=_integer("n", self.n, 1, SEQUENCES),
            presence_penalty=_real("presence_penalty", self.presence_penalty, -2, 2),
            frequency_penalty=_real("frequency_penalty", self.frequency_penalty, -2, 2),
            repetition_penalty=_real("repetition_penalty", self.repetition_penalty, WEAKEST, STRONGEST),
            temperature=_real("temperature", self.temperature, 0, HOTTEST),
            top_p=_real("top_p", self.top_p, 0, 1, open_low=True),
            top_k=max(0, _integer("top_k", self.top_k, -1)),
            min_p=_real("min_p", self.min_p, 0, 1),
            seed=None if self.seed is None or self.seed == -1 else _integer("seed", self.seed, *SEEDS),
            max_tokens=None if self.max_tokens is None else _integer("max_tokens", self.max_tokens, 0),
            min_tokens=_integer("min_tokens", self.min_tokens, 0),
            logprobs=None if self.logprobs is None else _integer("logprobs", self.logprobs, -1),
            prompt_logprobs=None if self.prompt_logprobs is None else _integer("prompt_logprobs", self.prompt_logprobs, -1),
        )

    def _sequences(self) -> None:
        self._set(
            stop=_texts("stop", (self.stop,) if isinstance(self.stop, str) else self.stop),
            bad_words=_texts("bad_words", self.bad_words),
            stop_token_ids=_ids("stop_token_ids", self.stop_token_ids),
            allowed_token_ids=None if self.allowed_token_ids is None else _ids("allowed_token_ids", self.allowed_token_ids),
            logit_bias=_biases(self.logit_bias),
        )

    def _together(self) -> None:
        """What only two parameters together can get wrong."""
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise ArgumentError(f"min_tokens is {self.min_tokens}; it must be at most max_tokens, which is {self.max_tokens}")
        if self.greedy and self.n > 1:
            raise ArgumentError(f"n is {self.n} with temperature {self.temperature}: greedy sequences are all equal; raise the temperature")
        if self.stop and not self.detokenize:
            raise ArgumentError("stop needs the text: leave detokenize True, or name stop_token_ids")
        if self.skip_reading_prefix_cache is False and self.prompt_logprobs is not None:
            raise ArgumentError(
                "skip_reading_prefix_cache is False with prompt_logprobs: they need every token of the prompt computed; leave it None"
            )
        if self.allowed_token_ids is not None and not self.allowed_token_ids:
            raise ArgumentError("allowed_token_ids is empty: no token could be chosen; None allows all")


def _integer(name: str, value: Any, low: int, high: int | None = None) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ArgumentError(f"{name} is {short(value)}; it must be an integer")
    if value < low or (high is not None and value > high):
        raise ArgumentError(f"{name} is {short(value)}; it must be {f'at least {low}' if high is None else f'from {low} to {high}'}")
    return int(value)


def _finite(value: Any) -> bool:
    """Whether a float holds it; whole numbers of hundreds of digits are over all of them."""
    return bool(abs(value) <= sys.float_info.max) if isinstance(value, int) else math.isfinite(value)


def _real(name: str, value: Any, low: float, high: float = math.inf, *, open_low: bool = False) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)) or not _finite(value):
        raise ArgumentError(f"{name} is {short(value)}; it must be a finite number")
    if value < low or value > high or (open_low and value == low):
        least = f"more than {low}" if open_low else f"at least {low}"
        raise ArgumentError(f"{name} is {value}; it must be {least}{'' if high == math.inf else f' and at most {high}'}")
    return float(value)


def _listed(name: str, values: Any, what: str) -> list[Any]:
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise ArgumentError(f"{name} is {values!r:.80}; it must be a list of {what}")
    return list(values)


def _texts(name: str, values: Any) -> tuple[str, ...]:
    texts = [] if values is None else _listed(name, values, "texts")
    for text in texts:
        if not isinstance(text, str) or not text:
            raise ArgumentError(f"{name} holds {text!r:.80}; each entry must be a text of at least one character")
    return tuple(texts)


def _ids(name: str, values: Any) -> tuple[int, ...]:
    return tuple(_integer(f"an id of {name}", i, 0) for i in ([] if values is None else _listed(name, values, "token ids")))


def _biases(values: Any) -> dict[int, float] | None:
    if values is None:
        return None
    if not isinstance(values, Mapping):
        raise ArgumentError(f"logit_bias is {values!r:.80}; it must map token ids to numbers from -100 to 100")
    if len(values) > BIASES:
        raise ArgumentError(f"logit_bias has {len(values)} entries; it may have {BIASES}")
    return {_integer("a token id of logit_bias", i, 0): _real(f"logit_bias of token {i}", v, -100, 100) for i, v in values.items()}
