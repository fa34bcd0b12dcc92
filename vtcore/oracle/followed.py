"""What an engine says along a recorded answer: after each of its prefixes, which token is likeliest, and how likely others are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from vtcore.errors import VtcoreError
from vtcore.oracle.recording import Answer, Array


class NotComparedError(VtcoreError):
    """An engine gave nothing that could be held against a recording: a verdict of its own, and never a pass."""


@dataclass(frozen=True)
class Said:
    """After one prefix: the likeliest token (None: one that has no id here, only `text`), and log probabilities by token id."""

    token: int | None
    logprobs: Mapping[int, float] = field(default_factory=dict)
    text: str | None = None


@dataclass(frozen=True)
class Followed:
    """An engine along one answer. said: one a token, None where it wasn't asked. how: in what way it was made to follow, and with how many
    requests. problem: why some positions are missing. forced: False for an engine that goes on from its own token where that differs, so
    that what comes after can't be compared. hidden: [layers, T, width], as in an Answer."""

    said: tuple[Said | None, ...]
    how: str
    problem: str | None = None
    forced: bool = True
    hidden: Array | None = None


class Engine(Protocol):
    """Something to compare with."""

    def describe(self) -> Mapping[str, str]:
        """What it is, its versions and its numerics; of a server, what was detected and used. May raise NotComparedError."""
        ...

    def follow(self, answer: Answer) -> Followed:
        """Along one answer, forced onto its tokens. Raises NotComparedError where nothing can be said."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


def log_softmax(logits: Array) -> Array:
    """float64 [..., V]. Raises NotComparedError where a logit is NaN or infinite, or all of a row are minus infinity."""
    wide = logits.astype(np.float64)
    if not np.isfinite(wide.max(-1)).all():  # the largest is NaN where any is
        raise NotComparedError("its logits are NaN or infinite: a weight is, or a kernel computes wrongly")
    shifted = wide - wide.max(-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))


def likeliest(logprobs: Array, count: int) -> tuple[Array, Array]:
    """The `count` likeliest ids of each row [n, V], of equals the lower id first, and their log probabilities: int32 and float32 [n, k]."""
    count = min(count, logprobs.shape[-1])
    near = np.sort(np.argpartition(-logprobs, count - 1, axis=-1)[:, :count], axis=-1)
    least = np.take_along_axis(logprobs, near, -1).min(-1)
    ids = np.stack([_ordered(row, low, count) for row, low in zip(logprobs, least, strict=True)])
    return ids.astype(np.int32), np.take_along_axis(logprobs, ids, -1).astype(np.float32)


def _ordered(row: Array, low: float, count: int) -> Array:
    candidates = np.flatnonzero(row >= low)
    return candidates[np.argsort(-row[candidates], kind="stable")[:count]]


def said_of(logits: Array, answer: Answer, spell: Callable[[int], str | None] = lambda token: None) -> tuple[Said, ...]:
    """From whole rows of logits [n, V], one a token of the answer. `spell` gives a token its text."""
    logprobs = log_softmax(logits)
    ids, _ = likeliest(logprobs, answer.top_ids.shape[1])
    rows = zip(logprobs, ids.tolist(), answer.top_ids.tolist(), strict=True)
    return tuple(Said(own[0], {i: float(row[i]) for i in (*own, *recorded) if i < row.size}, spell(own[0])) for row, own, recorded in rows)
