"""One forward's input and output. Every array has a shape that follows from the number of tokens, requests and pages alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vtcore.kvcache.cache import Cache, Group, View
from vtcore.models.layer import Layer
from vtcore.tensor import Tensor


@dataclass(frozen=True)
class Inserted:
    """Rows of [T, hidden] that come from elsewhere: an image's features, in place of embeddings."""

    rows: Tensor  # int32 [N]
    values: Tensor  # float32 [N, hidden]


@dataclass(frozen=True)
class Encoder:
    """What an encoder reads in a forward, E tokens of the requests whose first forward it is, and what the T tokens see of what it said.
    All are int32. Each of the T is a request of its own for `paged_attention`: so lengths have nothing to do with those of the text."""

    tokens: Tensor  # [E]
    positions: Tensor  # [E]
    runs: Tensor  # [N + 1] where each of those requests' tokens begin
    starts: Tensor  # [T + 1] 0, 1, 2 ...
    lengths: Tensor  # [T] tokens of its request's encoder
    until: Tensor  # [T] the last of them


@dataclass(frozen=True)
class Batch:
    """R requests' next tokens, end to end: T of them. All integers are int32."""

    tokens: Tensor  # [T]
    positions: Tensor  # [T], or [3, T] for multimodal rope
    starts: Tensor  # [R + 1] where each request's tokens begin
    lengths: Tensor  # [R] tokens of each request after this forward
    until: Tensor  # [T] the last index that each token sees; its own index when causal
    rows: Tensor  # [L] which of the T tokens want logits
    groups: Mapping[str, Group]  # page tables and slots, by cache group
    prompts: Tensor | None = None  # [R] tokens of each request's prompt, for ropes whose base grows with it; None: as lengths
    encoder: Encoder | None = None
    images: Inserted | None = None
    keep: frozenset[int] = frozenset()  # layers whose output is wanted


@dataclass
class Step:
    """A batch on its way through a model: with its cache, and with what is computed once for all layers."""

    batch: Batch
    cache: Cache
    angles: dict[str, Tensor] = field(default_factory=dict)  # [T, 2, half] by kind of layer
    shared: dict[str, Any] = field(default_factory=dict)

    def view(self, w: Layer, name: str = "kv") -> View:
        """A layer's cache under the name that it declared."""
        return self.cache.view(w.index, name, self.batch.groups)

    def walk(self, state: View) -> tuple[Tensor, Tensor, Tensor]:
        """How a layer's state is walked: the slots that requests begin from [R], that tokens keep theirs in [T], and borders [R + 1]."""
        table = state.group.table
        return table.reshape(table.shape[0]), state.group.slots, self.batch.starts


@dataclass(frozen=True)
class Output:
    """What a forward gives back, in float32."""

    logits: Tensor  # [L, vocab]
    hidden: Tensor  # [T, hidden] after the final norm
    kept: Mapping[int, Tensor]  # [T, hidden] by layer
