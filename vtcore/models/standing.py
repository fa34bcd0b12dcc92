"""Stand-ins for tensors that a checkpoint lacks, so that one forward finds all that are missing and not only the first."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from vtcore.models.config import ModelConfig
from vtcore.models.names import Stored
from vtcore.models.weights import Outlines, Param, Raw, Stack
from vtcore.storage import Storage
from vtcore.tensor import Tensor


class Left(Exception):
    """Leaves a part of the forward after something wrong in it was noted."""


class Standing(Outlines):
    """Outlines that put something of a likely shape where a tensor is missing."""

    def __init__(self, tensors: Mapping[str, Raw], numerics: str = "exact") -> None:
        super().__init__(tensors, numerics)
        self.missing: list[str] = []

    def absent(self, name: str, stored: Stored, prefix: str, config: ModelConfig) -> Param | Tensor:
        """As another layer has it; else as the config makes it; else the part of the forward that asks can't go on."""
        path = prefix + stored.path
        self.missing.append(f"{path}.weight")
        same = re.compile(re.sub(r"\d+", r"\\d+", re.escape(path)) + r"(\.weight)?$")
        for other in filter(same.match, self.tensors):
            read = other in self.used
            made = self.tensor(other, stored.fix, config)
            self.used -= set() if read else {other}
            self.origin.pop(made.storage, None)  # nothing that is said of it is about the other layer
            return Param(made, self.bias(path, stored, config)) if other.endswith(".weight") else made
        shape = likely_shape(name, config)
        if shape is None:
            raise Left
        return Param(Tensor(Storage(0), shape, np.dtype(np.float32)))

    def without(self, path: str) -> Stack:
        """The part of the forward that asks can't go on."""
        self.missing.append(path)
        raise Left


def likely_shape(name: str, c: ModelConfig) -> tuple[int, ...] | None:
    """What the weight that forwards call `name` should look like, where the config tells."""
    inner, vocab, wide = int(c.rest.get("intermediate_size") or c.hidden), max(c.vocab, 1), c.heads * c.head_dim
    shapes = {
        "embed_tokens": (vocab, c.hidden), "lm_head": (vocab, c.hidden), "norm": (c.hidden,), "o_proj": (c.hidden, wide),
        "q_proj": (wide, c.hidden), **dict.fromkeys(("k_proj", "v_proj"), (c.kv_heads * c.head_dim, c.hidden)),
        "gate_proj": (inner, c.hidden), "up_proj": (inner, c.hidden), "down_proj": (c.hidden, inner),
        "q_norm": (c.head_dim,), "k_norm": (c.head_dim,),
    }  # fmt: skip
    return (c.hidden,) if name.endswith("layernorm") else shapes.get(name)
