"""What is known of a model before any of its weights is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vtcore.op import Op
from vtcore.tensor import Tensor


@dataclass(frozen=True)
class Use:
    """One array of a model and an op that reads it. layer: None for what belongs to no layer; part: weight, bias, or "" (a bare array)."""

    layer: int | None
    name: str
    part: str
    op: Op


@dataclass(frozen=True)
class Survey:
    """What one forward without arithmetic found.

    missing, read: names of tensors. wrong: sentences about tensors whose shapes don't fit. bytes_by_format: of the weights in the form that
    the forward reads. largest: bytes of the layer with most of them, or of what belongs to no layer. token_bytes: of results that are
    alive at once, for each token of a step, logits apart. notes: what users should know of how the weights are read. whole: False if a
    part was left early, so that `read` lacks what comes after. seen: each weight, of which only shape and dtype count, with an op that
    reads it."""

    uses: tuple[Use, ...]
    missing: tuple[str, ...]
    read: frozenset[str]
    wrong: tuple[str, ...]
    bytes_by_format: Mapping[str, int]
    largest: int
    token_bytes: int
    notes: tuple[str, ...]
    whole: bool
    seen: tuple[tuple[Op, Tensor], ...]

    @property
    def weight_bytes(self) -> int:
        """Of all weights."""
        return sum(self.bytes_by_format.values())
