"""Logits to token ids. Every transform is an op over all rows, in which a row that doesn't ask for it has the neutral value.

The order is vLLM's: masks (allowed ids, bad words, no end before min_tokens), logit_bias, penalties; then the most likely token for
greedy rows, and for the others temperature, min_p, top_k and top_p, softmax and the draw. A draw is a function of (seed, how many
tokens the sequence has generated, token id) alone: neighbours, batching and preemption can't change it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
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
)
from vtcore.outputs import Logprob, Logprobs
from vtcore.request import Request
from vtcore.sampling_params import SamplingParams
from vtcore.tensor import Tensor, of

Array = np.ndarray[Any, Any]
Decode = Callable[[int], str]


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
    told = _raw_logprobs(logits, [r.params.logprobs is not None for r in requests])
    processed = _processed(logits, requests)
    ids, scores = _choose(processed, requests, likeliest if processed is logits else None)
    return [
        Sampled(r, token, None if row is None else describe(row, token, r.params.logprobs or 0, decode), score)
        for r, token, row, score in zip(requests, ids, told, scores, strict=True)
    ]


def describe(row: Array, token: int, count: int, decode: Decode | None) -> Logprobs:
    """A token and the `count` (-1: all) likeliest of a row of log probabilities [V]; ranks of equals rise with the id."""
    order = _likeliest(row, count).tolist()
    better = int(np.count_nonzero(row > row[token]) + np.count_nonzero(row[:token] == row[token]))
    ranked = {token: better + 1} | {i: rank for rank, i in enumerate(order, start=1)}
    return {i: Logprob(float(row[i]), rank, decode(i) if decode else None) for i, rank in ranked.items()}


def _likeliest(row: Array, count: int) -> Array:
    """The ids of the `count` (-1: all) largest, largest first, equals by id, NaN last."""
    falling = -row
    if 0 <= count < len(row):  # sorting a vocabulary takes much longer than finding the few that are worth it
        last = np.partition(falling, max(count - 1, 0))[max(count - 1, 0)]
        if not np.isnan(last):
            ids = np.flatnonzero(falling <= last)
            return ids[np.argsort(falling[ids], kind="stable")][:count]
    return np.argsort(falling, kind="stable")[: len(row) if count < 0 else count]


def _raw_logprobs(logits: Tensor, asked: Sequence[bool]) -> list[Array | None]:
    """Rows of log probabilities under the model's own logits, for those who asked."""
    rows = [i for i, a in enumerate(asked) if a]
    if not rows:
        return [None] * len(asked)
    values = iter(log_softmax(pick(logits, rows)).numpy())
    return [next(values) if a else None for a in asked]


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
    biases = [(row, i, value) for row, r in enumerate(requests) for i, value in (r.params.logit_bias or {}).items()]
    if biases:
        rows, ids, values = zip(*biases, strict=True)
        logits = apply_logit_bias(logits, _ints(rows), _ints(ids), of(np.array(values, np.float32)))
    if any(r.params.penalised for r in requests):
        logits = _penalise(logits, requests, vocab)
    return logits


def _penalise(logits: Tensor, requests: Sequence[Request], vocab: int) -> Tensor:
    """A row without penalties has 1, 0 and 0, which change no bit of it."""
    seen, counts = np.zeros((len(requests), vocab), bool), np.zeros((len(requests), vocab), np.int32)
    for row, r in enumerate(requests):
        if r.params.penalised:
            seen[row, r.prompt_token_ids] = True
            np.add.at(counts[row], r.output_token_ids, 1)
    params = [r.params for r in requests]
    repetition, frequency, presence = (_floats(params, f"{n}_penalty") for n in ("repetition", "frequency", "presence"))
    penalised: Tensor = apply_penalties(logits, of(seen), of(counts), repetition, frequency, presence)
    return penalised


def _mask(requests: Sequence[Request], vocab: int) -> Array | None:
    """[R, V], True for what may not be chosen; None where everything may."""
    rows = [_excluded(r, vocab) for r in requests]
    if all(row is None for row in rows):
        return None
    return np.stack([np.zeros(vocab, bool) if row is None else row for row in rows])


def _excluded(request: Request, vocab: int) -> Array | None:
    allowed, ends, words = request.params.allowed_token_ids, request.early_ends(), request.ends_of_bad_words()
    if allowed is None and not ends and not words:
        return None
    row = np.full(vocab, allowed is not None)
    row[list(allowed or ())] = False
    row[list(ends)] = True
    strict = row.copy()
    strict[list(words)] = True
    return row if strict.all() else strict  # where only bad words are left, they may be said: something has to be


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
    return of(np.array(list(values), np.int32))
