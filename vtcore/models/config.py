"""The numbers of one checkpoint. The only place where key names are guessed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from vtcore.errors import ConfigError
from vtcore.formats.metadata import short
from vtcore.models.activations import ACTIVATIONS
from vtcore.models.fields import MOST, Fields, Json
from vtcore.models.own_numbers import check_own
from vtcore.models.rope_config import longest, read_ropes

HIDDEN, HEADS = ("hidden_size", "n_embd", "d_model"), ("num_attention_heads", "num_heads", "n_head")
MADE_FOR = ", by max_position_embeddings and the rope's factor"
LAYERS, WIDTH, VOCAB = 1024, 1 << 20, 1 << 26  # more than any model has; what is above is a broken file
KINDS = frozenset({
    "full_attention", "sliding_attention", "chunked_attention", "indexed_attention", "compressed_sparse_attention",
    "heavily_compressed_attention", "linear_attention", "mamba", "conv", "attention", "mlp", "moe",
})  # fmt: skip
UNTURNED = frozenset({"linear_attention", "mamba", "conv", "mlp", "moe"})  # layers in which no rope has a part
MLP_KINDS = frozenset({"dense", "sparse", "moe", "hash_moe"})
ATTENTION, MLP = ("q_proj", "k_proj", "v_proj", "o_proj"), ("gate_proj", "up_proj", "down_proj")
BIASES = {"attention_bias": ATTENTION, "qkv_bias": ATTENTION[:3], "mlp_bias": MLP}  # which weights have one if a flag is true
OURS = {"num_key_value_heads": "kv_heads", "num_attention_heads": "heads", "head_dim": "head_dim"}


@dataclass(frozen=True)
class ModelConfig:
    """Of a whole model, or (through `layer`) of one of its layers. What only one family has is read from `rest` by its own name."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    scale: float  # of attention scores
    window: int  # 0: none
    chunk: int  # 0: none
    cap: float  # of attention scores, 0: none
    final_cap: float  # of logits, 0: none
    tied: bool
    act: str  # the MLP's activation, as transformers names it
    vocab: int  # 0: as many as the embedding has rows
    biased: frozenset[str]  # weights that must have a bias
    context: int  # the longest sequence that the checkpoint is made for
    max_model_len: int  # the longest that will be served
    kinds: tuple[str, ...]  # what mixes tokens in each layer: full_attention, sliding_attention, linear_attention, ...
    mlp_kinds: tuple[str, ...]  # what follows it: dense, sparse
    ropes: Mapping[str, Json | None]  # by kind, or under "" for all
    overrides: Mapping[int, Json] = field(default_factory=dict)  # of single layers
    rest: Json = field(default_factory=dict)
    spelled: Mapping[str, str] = field(default_factory=dict)  # what keys of `rest` are called in the file, where otherwise
    kind: str = ""  # of this layer
    mlp_kind: str = ""  # of this layer
    rope: Json | None = None  # of this layer; None: it does not rotate
    rope_dim: int = 0  # 0: head_dim

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "rest" not in self.__dict__:
            raise AttributeError(name)
        if self.rest.get(name) is None:
            raise ConfigError(f"the model's config has no {self.spelled.get(name, name)!r}, and this architecture can't do without")
        return self.rest[name]

    def layer(self, index: int) -> ModelConfig:
        """The numbers as one layer sees them."""
        kind = _at(self.kinds, index)
        window, chunk = self.window if "sliding" in kind else 0, self.chunk if "chunked" in kind else 0
        rope = None if kind in UNTURNED else self.ropes[kind] if kind in self.ropes else self.ropes.get("")
        own = self.overrides.get(index, {})
        return replace(self, kind=kind, mlp_kind=_at(self.mlp_kinds, index), window=window, chunk=chunk, rope=rope, **own)

    @classmethod
    def from_hf(
        cls, raw: Json, max_model_len: int | None = None, file: str = "config.json", spelled: Mapping[str, str] | None = None
    ) -> ModelConfig:
        """From config.json, in the spelling of transformers 4 or 5. `spelled`: what the keys are called in the file, where otherwise.

        Raises ConfigError for what is missing, of a wrong type, out of range or contradictory."""
        f = Fields(raw, file, spelled)
        layers = f.integer("num_hidden_layers", "n_layer", high=LAYERS)
        window = f.integer("sliding_window", default=0, low=0) if f.flag("use_sliding_window", True) else 0
        ropes = read_ropes(f)
        context = longest(f, ropes)
        served = context if max_model_len is None else max_model_len
        if not 1 <= served <= MOST:
            raise ConfigError(f"max_model_len is {served}{MADE_FOR * (max_model_len is None)}; it must be from 1 to {MOST}")
        check_own(f, layers)
        kinds = _kinds(f, layers, window)
        _check_ropes(f, ropes, kinds)
        return cls(
            layers=layers,
            **_heads(f),
            eps=f.number("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps", default=1e-5, high=1.0),
            window=window,
            chunk=f.integer("attention_chunk_size", default=0, low=0),
            cap=f.number("attn_logit_softcapping", default=0.0),
            final_cap=f.number("final_logit_softcapping", default=0.0),
            tied=f.flag("tie_word_embeddings"),
            act=f.word("hidden_activation", "hidden_act", "activation_function", default="silu", allowed=ACTIVATIONS),
            vocab=f.integer("vocab_size", default=0, low=0, high=VOCAB),
            biased=frozenset(n for key, names in BIASES.items() if f.flag(key) for n in names),
            context=context,
            max_model_len=served,
            kinds=kinds,
            mlp_kinds=_mlp_kinds(f, layers),
            ropes={kind: rope and rope | {"max_model_len": served} for kind, rope in ropes.items()},
            overrides=_overrides(f, layers),
            rest=raw,
            spelled=f.spelled,
        )


def _heads(f: Fields) -> dict[str, Any]:
    """Widths and what follows from them; they must divide."""
    hidden = f.integer(*HIDDEN, high=WIDTH)
    heads = f.integer(*HEADS, default=1, high=WIDTH)
    kv_heads = f.integer("num_key_value_heads", default=heads, high=WIDTH)
    if heads % kv_heads:
        many, few = f.called(*HEADS), f.name("num_key_value_heads")
        raise ConfigError(f"{f.file}: {many} is {heads} and {few} is {kv_heads}; the first must be a multiple of the second")
    if not f.has("head_dim") and hidden % heads:
        many, wide, head = f.called(*HEADS), f.called(*HIDDEN), f.name("head_dim")
        raise ConfigError(f"{f.file}: {wide} is {hidden}, which {many} {heads} does not divide; then {head} must be given")
    head_dim = f.integer("head_dim", default=hidden // heads, high=WIDTH)
    scale = f.number("attention_multiplier", default=f.number("query_pre_attn_scalar", default=head_dim, above=True) ** -0.5, above=True)
    return {"hidden": hidden, "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "scale": scale}


def _at(kinds: tuple[str, ...], index: int) -> str:
    """Draft heads lie behind the last layer and are like it."""
    return kinds[min(index, len(kinds) - 1)]


def _kinds(f: Fields, layers: int, window: int) -> tuple[str, ...]:
    if (listed := f.words("layer_types", layers, KINDS)) is not None:
        return listed
    sliding = "sliding_attention" if window else "full_attention"
    if (pattern := f.integer("_sliding_window_pattern", "sliding_window_pattern", default=0, low=0)) and window:
        return tuple(sliding if (i + 1) % pattern else "full_attention" for i in range(layers))
    first = f.integer("max_window_layers", default=0, low=0)  # Qwen: only the layers from here on
    return tuple(sliding if i >= first else "full_attention" for i in range(layers))


def _check_ropes(f: Fields, ropes: Mapping[str, Json | None], kinds: tuple[str, ...]) -> None:
    """Where ropes are told apart by kind of layer, each kind that turns must have one, or null."""
    wanted = set(kinds) - UNTURNED
    if ropes and "" not in ropes and (odd := set(ropes) - KINDS or wanted - set(ropes)):
        raise ConfigError(
            f"{f.file}: rope_parameters has {', '.join(map(short, sorted(ropes)))}: wrong is {short(min(odd))}, which is no kind of layer "
            f"or is not there; it must have an object, or null, for each of {', '.join(sorted(wanted))}"
        )


def _mlp_kinds(f: Fields, layers: int) -> tuple[str, ...]:
    if (listed := f.words("mlp_layer_types", layers, MLP_KINDS)) is not None:
        return listed
    sparse, only = f.indices("moe_layers"), f.indices("mlp_only_layers") or ()
    if sparse is not None:
        return tuple("sparse" if i in sparse else "dense" for i in range(layers))
    every, first = f.integer("decoder_sparse_step", default=1), f.integer("first_k_dense_replace", default=0, low=0)
    return tuple("dense" if i < first or i in only or (i + 1) % every else "sparse" for i in range(layers))


def _overrides(f: Fields, layers: int) -> dict[int, Json]:
    """`per_layer_config`: numbers of single layers, by the layer's number."""
    out: dict[int, Json] = {}
    for index, own in f.mapping("per_layer_config").items():
        if not index.isdigit() or int(index) >= layers or not isinstance(own, dict):
            raise ConfigError(
                f"{f.file}: {f.name('per_layer_config')} has {index!r}: {own!r:.40}; it must name layers from 0 to {layers - 1}"
            )
        per = Fields(own, f.file, f.spelled)
        made: Json = {ours: per.integer(n, high=WIDTH) for n, ours in OURS.items() if n in own}
        follows = "head_dim" in made and not any(f.has(n) for n in ("attention_multiplier", "query_pre_attn_scalar"))
        out[int(index)] = made | ({"scale": made["head_dim"] ** -0.5} if follows else {})
    return out
