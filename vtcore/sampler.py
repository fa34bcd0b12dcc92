"""Logits to token ids. Every transform is an op over all rows, in which a row that doesn't ask for it has the neutral value.

The order is vLLM's: masks (allowed ids, bad words, no end before min_tokens), logit_bias, penalties; then the most likely token for
greedy rows, and for the others temperature, min_p, top_k and top_p, softmax and the draw. A draw is a function of (seed, how many
tokens the sequence has generated, token id) alone: neighbours, batching and preemption can't change it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from vtcore.ops import (
    apply_logit_bias,
    apply_min_p,
    apply_penalties,
    apply_temperature,
    apply_token_mask,
    apply_top_k_top_p,
    argmax,
    embedding,
    log_softmax,
    random_sample,
    softmax,
    top_k,
)
from vtcore.outputs import Logprob, Logprobs
from vtcore.request import Request
from vtcore.sampling_params import SamplingParams
from vtcore.tensor import Tensor, of

Array = np.ndarray[Any, Any]
Decode = Callable[[int], str]
SPELLED = 1 << 16  # tokens whose texts are kept


@dataclass(frozen=True)
class Sampled:
    """A sequence's next token, with what was asked to be told about it."""

    request: Request
    token_id: int
    logprobs: Logprobs | None
    score: float  # the logit or the probability that it was chosen by: NaN where the row holds a NaN


def sample(logits: Tensor, requests: Sequence[Request], decode: Decode | None = None, likeliest: Array | None = None) -> list[Sampled]:
    """The next token of each sequence from its row of logits [R, V]. `decode` gives reported alternatives their text; `likeliest` are
    each row's likeliest ids, if they are known already."""
    processed = _processed(logits, requests)
    ids, scores = _choose(processed, requests, likeliest if processed is logits else None)
    told = _told(logits, ids, [r.params.logprobs for r in requests], decode)
    return [Sampled(*one) for one in zip(requests, ids, told, scores, strict=True)]


def _told(logits: Tensor, ids: Sequence[int], counts: Sequence[int | None], decode: Decode | None) -> list[Logprobs | None]:
    """What is told of chosen tokens under the model's own logits, for those who asked."""
    asked = [(row, count) for row, count in enumerate(counts) if count is not None]
    if not asked:
        return [None] * len(ids)
    rows, numbers = zip(*asked, strict=True)
    said = iter(describe(log_softmax(pick(logits, rows)), [ids[row] for row in rows], numbers, decode))
    return [None if count is None else next(said) for count in counts]


def describe(rows: Tensor, tokens: Sequence[int], counts: Sequence[int], decode: Decode | None) -> list[Logprobs]:
    """Of each row of log probabilities [R, V] its token and its `count` (-1: all) likeliest, NaN last. Ranks of equals rise with the id."""
    most = min(max([1, *counts]), rows.shape[-1])
    values, best = rows.numpy(), top_k(rows, most)[1].numpy()
    return [
        _described(row, token, some[:count] if count >= 0 else np.argsort(-row, kind="stable"), decode)
        for row, token, count, some in zip(values, tokens, counts, best, strict=True)
    ]


def _described(row: Array, token: int, likeliest: Array, decode: Decode | None) -> Logprobs:
    ranked = {i: rank for rank, i in enumerate(likeliest.tolist(), start=1)}
    if token not in ranked:
        better = int(np.count_nonzero(row > row[token]) + np.count_nonzero(row[:token] == row[token]))
        ranked[token] = better + 1
    return {i: Logprob(float(row[i]), ranked[i], decode(i) if decode else None) for i in dict.fromkeys((token, *ranked))}


def spelling(tokenizer: Any) -> Decode | None:
    """Single tokens as texts, kept once they were asked for; None without a tokenizer."""
    return None if tokenizer is None else lru_cache(SPELLED)(lambda i: str(tokenizer.decode([i], skip_special_tokens=False)))


def pick(logits: Tensor, rows: Sequence[int]) -> Tensor:
    """Some rows of logits [R, V], in the order given."""
    if list(rows) == list(range(logits.shape[0])):
        return logits
    chosen: Tensor = embedding(logits, of(np.array(rows, np.int32)))
    return chosen


def _processed(logits: Tensor, requests: Sequence[Request]) -> Tensor:
    vocab = logits.shape[-1]
    if (mask := _mask(requests, vocab)) is not None:
        logits = apply_token_mask(logits, of(mask))
    if biases := [(row, *r.submission.biases) for row, r in enumerate(requests) if r.params.logit_bias]:
        rows, ids, values = zip(*biases, strict=True)
        places = of(np.repeat(_array(rows), [*map(len, ids)])), of(np.concatenate(ids))
        logits = apply_logit_bias(logits, *places, of(np.concatenate(values)))
    if any(r.params.penalised for r in requests):
        logits = _penalise(logits, requests, vocab)
    return logits


def _penalise(logits: Tensor, requests: Sequence[Request], vocab: int) -> Tensor:
    """A row without penalties has 1, 0 and 0, which change no bit of it."""
    seen, counts = np.zeros((len(requests), vocab), bool), np.zeros((len(requests), vocab), np.int32)
    for row, r in enumerate(requests):
        if r.params.penalised:
            seen[row, r.submission.prompt_array] = True
            np.add.at(counts[row], r.output_array(), 1)
    params = [r.params for r in requests]
    repetition, frequency, presence = (_floats(params, f"{n}_penalty") for n in ("repetition", "frequency", "presence"))
    penalised: Tensor = apply_penalties(logits, of(seen), of(counts), repetition, frequency, presence)
    return penalised


def _mask(requests: Sequence[Request], vocab: int) -> Array | None:
    """[R, V], True for what may not be chosen; None where everything may."""
    barred = [(row, r, r.early_ends(), r.ends_of_bad_words()) for row, r in enumerate(requests)]
    barred = [(row, r, ends, words) for row, r, ends, words in barred if ends or words or r.params.allowed_token_ids is not None]
    if not barred:
        return None
    mask = np.zeros((len(requests), vocab), bool)
    for row, r, ends, words in barred:
        _exclude(mask[row], r, ends, words)
    return mask


def _exclude(row: Array, request: Request, ends: Collection[int], words: Collection[int]) -> None:
    if request.params.allowed_token_ids is not None:
        row[:] = True
        row[request.submission.allowed_array] = False
    row[list(ends)] = True
    ids = list(words)
    before, row[ids] = row[ids], True
    if row.all():
        row[ids] = before  # where only bad words are left, they may be said: something has to be


def _choose(logits: Tensor, requests: Sequence[Request], likeliest: Array | None) -> tuple[list[int], list[float]]:
    """A token for each row, and what it was chosen by."""
    greedy = [i for i, r in enumerate(requests) if r.params.greedy]
    drawn = [i for i, r in enumerate(requests) if not r.params.greedy]
    ids, scores = np.zeros(len(requests), np.int64), np.zeros(len(requests))
    if greedy:
        ids[greedy] = argmax(pick(logits, greedy)).numpy() if likeliest is None else likeliest[greedy]
        scores[greedy] = logits.numpy()[greedy, ids[greedy]]
    if drawn:
        ids[drawn], scores[drawn] = _draw(pick(logits, drawn), [requests[i] for i in drawn])
    return ids.tolist(), scores.tolist()


def _draw(logits: Tensor, requests: Sequence[Request]) -> tuple[Array, Array]:
    """A token for each row, and its probability."""
    params = [r.params for r in requests]
    if any(p.temperature != 1 for p in params):
        logits = apply_temperature(logits, _floats(params, "temperature"))
    if any(p.min_p for p in params):
        logits = apply_min_p(logits, _floats(params, "min_p"))
    if any(p.top_k or p.top_p < 1 for p in params):
        most = logits.shape[-1]  # a larger top_k is off too, and may be more than an int32 holds
        logits = apply_top_k_top_p(logits, _ints(min(p.top_k, most) for p in params), _floats(params, "top_p"))
    seeds, steps = (r.seed for r in requests), (len(r.output_token_ids) for r in requests)
    shares = softmax(logits)
    ids: Array = random_sample(shares, of(np.array(list(seeds), np.int64)), _ints(steps)).numpy()
    return ids, shares.numpy()[np.arange(len(ids)), ids]


def _floats(params: Sequence[SamplingParams], name: str) -> Tensor:
    return of(np.array([getattr(p, name) for p in params], np.float32))


def _ints(values: Iterable[int]) -> Tensor:
    return of(_array(values))


def _array(values: Iterable[int]) -> Array:
    return np.array(list(values), np.int32)
