"""Layers of weights under a table of names, and the numbers that describe them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from vtcore.errors import ConfigError
from vtcore.models.config import ModelConfig
from vtcore.models.fields import Json
from vtcore.models.layer import Layer, Named
from vtcore.models.names import Dialect, Names
from vtcore.models.weights import Weights

MEANT = frozenset({  # of which null says something: none, or what follows from other numbers
    "sliding_window", "attention_chunk_size", "attn_logit_softcapping", "final_logit_softcapping", "hidden_size_per_layer_input",
    "rotary_dim", "head_dim", "num_key_value_heads", "max_window_layers", "sliding_window_pattern",
})  # fmt: skip
Attach = Callable[[Named, str, Any], Any]


class Network:
    """What decoders, encoders and towers share."""

    prefix: ClassVar[str] = "model.layers.{}."
    top: ClassVar[Names] = {}
    names: ClassVar[Names] = {}
    defaults: ClassVar[Json] = {}  # what config.json leaves out when it has this value
    words: ClassVar[Mapping[str, str]] = {}  # a family's own keys of config.json, and what others call the same
    only: ClassVar[Json] = {}  # keys of which this forward knows one value
    ungated: ClassVar[str] = ""  # where there is no golden: what it was held against instead

    @classmethod
    def filled(cls, raw: Json) -> Json:
        """A config.json with the values that this family has where there are none, or null."""
        return cls.defaults | {key: value for key, value in raw.items() if value is not None or key in MEANT or key not in cls.defaults}

    @classmethod
    def refused(cls, raw: Json) -> str | None:
        """A key whose value this forward doesn't know."""
        return next((key for key, value in cls.only.items() if raw.get(key) not in (None, value)), None)

    @classmethod
    def read_config(cls, raw: Json, max_model_len: int | None = None, **source: Any) -> ModelConfig:
        """From config.json; a family that says the same numbers in another form translates them here.

        Raises ConfigError, also for a value that changes the forward and that this one doesn't know."""
        if key := cls.refused(raw):
            file = source.get("file", "config.json")
            raise ConfigError(f"{file}: {key} is {raw[key]!r:.80}; {cls.__name__} is written for {cls.only[key]!r} alone")
        own = [n for n in cls.words if raw.get(n) is not None]
        absent = {v: " or ".join([v, *(n for n in cls.words if cls.words[n] == v)]) for v in cls.words.values() if raw.get(v) is None}
        source["spelled"] = {**absent, **(source.get("spelled") or {}), **{cls.words[n]: n for n in own}}
        said = {n: v for n, v in raw.items() if n not in own} | {cls.words[n]: raw[n] for n in own}
        return ModelConfig.from_hf(said, max_model_len, **source)

    def __init__(self, config: ModelConfig, weights: Weights, dialect: Dialect | None = None, attach: tuple[Attach, ...] = ()) -> None:
        """`attach` may stand in for each weight as it is read."""
        self.config, self.weights = config, weights
        self.dialect = dialect or Dialect(self.top, self.names, self.prefix)
        self.top_weights = Named(weights, self.dialect, self.dialect.top, "", config, attach)
        self.layers = [Layer(weights, self.dialect, i, self.layer_config(i), attach) for i in self.indices()]

    def indices(self) -> range:
        """The numbers of this model's layers in the checkpoint."""
        return range(self.config.layers)

    def layer_config(self, index: int) -> ModelConfig:
        """The numbers of one layer: config.json's, and here what the architecture fixes without writing it there."""
        return self.config.layer(index)
