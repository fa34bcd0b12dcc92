"""A checkpoint's tensors by name, read on first use into the form in which a forward reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import count, takewhile
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from vtcore import tensor
from vtcore.errors import CheckpointError, TensorNamesError
from vtcore.models.config import ModelConfig
from vtcore.models.fields import MOST
from vtcore.models.names import Fix, Host, Stored, StoredExperts, Values, is_outline, outline
from vtcore.op import Op
from vtcore.ops import experts, experts_q8, linear, linear_q8
from vtcore.quant.blocks import BlockFormat, Blocks, as_float32
from vtcore.signature import FLOATS
from vtcore.storage import Storage
from vtcore.tensor import Tensor


class Raw(Protocol):
    """What `formats` gives for each tensor of a checkpoint."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> Any: ...
    def load(self, part: int | None = None) -> Any: ...


Stack = Tensor | tuple[Tensor, ...]  # the matrices of all experts: [E, N, K], or one by one


@dataclass(eq=False)
class Param:
    """A weight and its bias, if the checkpoint has one. Called, it projects; a norm or an embedding reads its fields."""

    weight: Tensor
    bias: Tensor | None = None
    project: Op = linear

    def __call__(self, x: Tensor) -> Tensor:
        out: Tensor = self.project(x, self.weight, self.bias)
        return out


class Weights:
    """Tensors by name; remembers which were asked for, so that what nobody reads is reported."""

    def __init__(self, tensors: Mapping[str, Raw], numerics: str = "exact", wrap: Callable[[Host], Tensor] = tensor.of) -> None:
        self.tensors, self.numerics, self.wrap = tensors, numerics, wrap
        self.used: set[str] = set()
        self.notes: dict[str, None] = {}  # what a user should know of how these weights are read
        self.origin: WeakKeyDictionary[Storage, str] = WeakKeyDictionary()

    def read(self, name: str, stored: Stored, prefix: str, config: ModelConfig) -> Param | Stack:
        """What a forward calls `name`: a Param for `path.weight`, a Tensor for a bare `path`, a Stack for experts."""
        path = prefix + stored.path
        if isinstance(stored, StoredExperts):
            return self.experts(name, stored, prefix, config)
        if "{}" in path:
            return self.stacked(name, stored, prefix, config)
        if path + ".weight" in self.tensors:
            weight = self.tensor(path + ".weight", stored.fix, config)
            return weight if stored.bare else Param(weight, self.bias(path, stored, config), self.projection(weight))
        if path in self.tensors:
            return self.tensor(path, stored.fix, config)
        return self.absent(name, stored, prefix, config)

    def stacked(self, name: str, stored: Stored, prefix: str, config: ModelConfig) -> Param | Tensor:
        """Tensors of one shape that are numbered from 0, as one with an axis more."""
        parts = takewhile(self.tensors.__contains__, (f"{prefix}{stored.path.format(i)}.weight" for i in count()))
        if not (names := list(parts)):
            return self.absent(name, Stored(stored.path.format(0)), prefix, config)
        self.used |= set(names)
        whole = np.stack([as_float32(self.load(self.tensors[n])) for n in names])
        made = self.hold(stored.fix(whole, config) if stored.fix else whole)
        self.origin[made.storage] = names[0]
        return Param(made)

    def experts(self, name: str, stored: Stored, prefix: str, config: ModelConfig) -> Stack:
        """Each expert's matrix where the checkpoint has it: nothing is copied together."""
        count, paths = int(config.num_experts), [f"{prefix}{stored.path}.weight", prefix + stored.path]
        if "{}" in stored.path and count <= len(self.tensors):
            return tuple(self.expert(name, replace(stored, path=stored.path.format(e)), prefix, config) for e in range(count))
        whole = next((p for p in paths if p in self.tensors), None)
        if whole is None:
            return self.without(paths[0].format(0))
        shape = self.tensors[whole].shape
        if len(shape) != 3 or shape[0] != count:
            raise CheckpointError(
                f"{whole} is {list(shape)}; it must have three axes, the first of {count}: the config's number of experts"
            )
        if stored.fix is None:
            return self.tensor(whole, None, config)
        return tuple(self.tensor(whole, stored.fix, config, e) for e in range(count))

    def expert(self, name: str, stored: Stored, prefix: str, config: ModelConfig) -> Tensor:
        """One expert's matrix."""
        value = self.read(name, Stored(stored.path, stored.fix, bare=True), prefix, config)
        made = value.weight if isinstance(value, Param) else value
        assert isinstance(made, Tensor), "only stacks are tuples"
        return made

    def bias(self, path: str, stored: Stored, config: ModelConfig) -> Tensor | None:
        """The bias beside a weight, if there is one."""
        if path + ".bias" not in self.tensors:
            return None
        return self.tensor(path + ".bias", stored.fix if stored.both else None, config)

    def absent(self, name: str, stored: Stored, prefix: str, config: ModelConfig) -> Param | Tensor:
        """What to do about a tensor that isn't there."""
        path = prefix + stored.path
        raise TensorNamesError(f"the checkpoint has neither {path}.weight nor {path}")

    def without(self, path: str) -> Stack:
        """What to do about experts that aren't there."""
        raise TensorNamesError(f"the checkpoint has no {path}")

    def mixing(self, *stacks: Stack) -> Op:
        """How to multiply by experts: with 8-bit activations where that was asked for and all their formats allow it."""
        formats = {m.dtype for s in stacks for m in (s if isinstance(s, tuple) else (s,))}
        coded = all(isinstance(f, BlockFormat) and f.codes for f in formats)
        return experts_q8 if self.numerics == "fast" and coded else experts

    def projection(self, weight: Tensor) -> Op:
        """How to multiply by it: with 8-bit activations where that was asked for and its format allows it."""
        format_ = weight.dtype
        return linear_q8 if self.numerics == "fast" and isinstance(format_, BlockFormat) and format_.codes else linear

    def tensor(self, name: str, fix: Fix | None, config: ModelConfig, part: int | None = None) -> Tensor:
        """One tensor (or the part-th of those stacked in it) in the form that the forward reads, and remembered as read."""
        raw = self.tensors[name]
        self.used.add(name)
        try:
            value = _usable(self.load(raw, part))
            value = fix(value, config) if fix else value
        except (ValueError, IndexError) as e:
            raise CheckpointError(
                f"{name} {list(raw.shape)} ({raw.dtype}) can't be brought into the form that the forward reads: {e}"
            ) from e
        if isinstance(fix, Values) and isinstance(raw.dtype, BlockFormat):
            self.notes[f"{name} is {raw.dtype} in the checkpoint and float32 in memory, since its values are changed at load"] = None
        made = self.hold(value)
        self.origin[made.storage] = name
        return made

    def load(self, raw: Raw, part: int | None = None) -> Host:
        """The values, or those of the part-th entry: a view of the mapped file."""
        value: Host = raw.load() if part is None else raw.load(part)
        return value

    def hold(self, value: Host) -> Tensor:
        """Values as what ops take."""
        return self.wrap(value)

    def unread(self) -> list[str]:
        """Names in the checkpoint that no forward has asked for."""
        return sorted(set(self.tensors) - self.used)


class Outlines(Weights):
    """Weights of which only shapes and dtypes are known: enough for a forward on the null provider."""

    def load(self, raw: Raw, part: int | None = None) -> Host:
        whole = outline(raw.shape, raw.dtype)
        return whole if part is None else whole[part]

    def hold(self, value: Host) -> Tensor:
        return Tensor(Storage(0), value.shape, value.dtype)


def _usable(value: Host) -> Host:
    """In a dtype that ops take: other integers as int32, other floats refused."""
    if isinstance(value, Blocks) or value.dtype in FLOATS or value.dtype.kind == "b":
        return value
    if value.dtype.kind in "iu":
        if value.dtype.itemsize > 2 and not is_outline(value) and value.size and not -MOST <= value.min() <= value.max() <= MOST:
            raise ValueError(f"it holds numbers from {value.min()} to {value.max()}; ops take those that int32 holds")
        return value.astype(np.int32)
    if value.dtype == np.float64:
        return value.astype(np.float32)
    raise ValueError(f"no op reads {value.dtype}")
