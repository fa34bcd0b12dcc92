"""Weights as attributes: what a forward reads them through."""

from collections.abc import Iterator
from typing import Any

from vtcore.mapped import forget
from vtcore.memory import HOST
from vtcore.models.config import ModelConfig
from vtcore.models.names import Dialect, Names
from vtcore.models.weights import Param, Weights
from vtcore.tensor import Tensor

KEPT = ("config", "index")  # attributes that are no weights


class Named:
    """Weights as attributes, read through a table of names on first use: w.q_proj is `model.layers.3.self_attn.q_proj`."""

    def __init__(self, weights: Weights, dialect: Dialect, table: Names, prefix: str, config: ModelConfig, attach: tuple[Any, ...]) -> None:
        self.config, self._weights, self._dialect, self._table = config, weights, dialect, table
        self._prefix, self._attach = prefix, attach

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        value: Any = self._weights.read(name, self._dialect.find(name, self._table), self._prefix, self.config)
        for attach in self._attach:  # LoRA or a tensor-parallel share: each may stand in for a weight
            value = attach(self, name, value)
        self.__dict__[name] = value
        return value

    def let_go(self) -> None:
        """Forget the weights, and with them what providers made of them. Who asks for one again reads it from its file."""
        for name in [n for n in self.__dict__ if n not in KEPT and not n.startswith("_")]:
            for array in _arrays(self.__dict__.pop(name)):
                if (held := array.storage.copies.get(HOST)) is not None:
                    forget(held.buffer)


class Layer(Named):
    """One layer: its number, its own config (`w.config.head_dim`) and its weights (`w.q_proj`)."""

    def __init__(self, weights: Weights, dialect: Dialect, index: int, config: ModelConfig, attach: tuple[Any, ...] = ()) -> None:
        super().__init__(weights, dialect, dialect.names, dialect.prefix.format(index), config, attach)
        self.index = index


def _arrays(value: Any) -> Iterator[Tensor]:
    """Those of a weight, of a bare array, or of a stack."""
    for one in value if isinstance(value, tuple) else (value.weight, value.bias) if isinstance(value, Param) else (value,):
        if isinstance(one, Tensor):
            yield one
