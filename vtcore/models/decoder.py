"""What every decoder shares: its layers, their caches, and the walk over them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from vtcore.errors import ConfigError, OpError
from vtcore.kvcache.cache import Cache, Group, Key, Paged, Spec
from vtcore.models.activations import GATES
from vtcore.models.batch import Batch, Output, Step
from vtcore.models.config import ModelConfig
from vtcore.models.facts import Survey
from vtcore.models.fields import Json
from vtcore.models.kept import Kept, codes_of
from vtcore.models.layer import Layer
from vtcore.models.names import Dialect, Names, Rows, Stored, StoredExperts, Values
from vtcore.models.network import Attach, Network
from vtcore.models.registry import architecture
from vtcore.models.rope import HeldRope, make_rope
from vtcore.models.weights import Param, Weights
from vtcore.op import Array, Op
from vtcore.ops import dynamic_angles, embedding, paged_attention, place, rope_angles, rotate, scale, softcap


def heads(x: Array, width: int) -> Array:
    """[T, n * width] as [T, n, width]. How many heads there are, the weight knows: never the config (a rank has fewer)."""
    if x.shape[1] % width:
        raise OpError(f"{x.shape[1]} channels can't be cut into heads of {width}")
    return x.reshape(x.shape[0], x.shape[1] // width, width)


def flat(x: Array) -> Array:
    """[T, heads, width] as [T, heads * width]."""
    return x.reshape(x.shape[0], x.shape[1] * x.shape[2])


class Decoder(Network):
    """Embed, walk the layers, normalise, project. Subclasses write `layer` and `norm`."""

    top: ClassVar[Names] = {"embed_tokens": "model.embed_tokens", "norm": "model.norm", "lm_head": "lm_head"}
    interleaved: ClassVar[bool] = False  # rope turns pairs (2i, 2i + 1) instead of halves
    acts: ClassVar[Mapping[str, Op]] = GATES
    kinds: ClassVar[frozenset[str]] = frozenset({"full_attention", "sliding_attention", "chunked_attention"})

    @classmethod
    def variant(cls, raw: Json) -> type[Decoder]:
        """Where one name stands for several structures, the class of this one."""
        return cls

    @classmethod
    def spare(cls, config: ModelConfig) -> set[tuple[int, str]]:
        """Weights that checkpoints may hold though no forward needs them: the layer's number, and the forward's name."""
        return set()

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        dialect: Dialect | None = None,
        attach: tuple[Attach, ...] = (),
        survey: Survey | None = None,
    ) -> None:
        super().__init__(config, weights, dialect, attach)
        self.kept = Kept()
        self.survey, self.streamed = survey, False  # streamed: no weight stays in memory after its layer
        self._check()
        turning = {w.config.kind: w.config for w in self.layers if w.config.rope}
        self.ropes = {kind: HeldRope.of(make_rope(c.rope or {}, c.rope_dim or c.head_dim)) for kind, c in turning.items()}

    def _check(self) -> None:
        name, c = type(self).__name__, self.config
        if c.act not in self.acts:
            raise ConfigError(f"activation {c.act!r} is not one that {name} can have; it can have {', '.join(self.acts)}")
        if unknown := set(c.kinds) - self.kinds:
            raise ConfigError(f"layer_types has {', '.join(sorted(unknown))}; layers of {name} are {', '.join(sorted(self.kinds))}")

    def __call__(self, batch: Batch, cache: Cache) -> Output:
        step, kept = self.begin(batch, cache), {}
        x = self.embed(step)
        for w in self.layers:
            x = self.layer(w, x, step)
            if w.index in batch.keep:
                kept[w.index] = x
            if self.streamed:
                w.let_go()
        x = self.finish(x)
        out = Output(self.head(embedding(x, batch.rows)), x, kept)
        if self.streamed:
            self.top_weights.let_go()
        return out

    def caches(self, w: Layer) -> dict[str, Spec]:
        """What a layer keeps between forwards."""
        c = w.config
        shapes = dict.fromkeys(("k", "v"), (c.kv_heads, c.head_dim))
        return {"kv": Paged(shapes, c.window, chunk=0 if c.window else c.chunk, heads=True)}

    def specs(self) -> dict[Key, Spec]:
        """Every layer's caches, for whoever allocates them."""
        return self.kept.specs({(w.index, name): spec for w in self.layers for name, spec in self.caches(w).items()})

    @property
    def rope_grows(self) -> int:
        """Prompts longer than this give their tokens other angles, so that no other prompt can share their keys; 0: none do."""
        return min((r.rope.dynamic[1] for r in self.ropes.values() if r.rope.dynamic), default=0)

    def uses(self) -> Iterator[tuple[Op, Array]]:
        """Every weight (biases apart) with each op that reads it, for providers that prepare them. Reads from disk what nothing has yet."""
        layers = {w.index: w for w in self.layers}
        for use in self.survey.uses if self.survey else ():
            if use.part == "bias":
                continue
            owner = self.top_weights if use.layer is None else layers[use.layer]
            value = getattr(owner, use.name)
            value = getattr(value, use.part) if use.part else value
            for one in value if isinstance(value, tuple) else (value,):
                yield use.op, one

    def begin(self, batch: Batch, cache: Cache) -> Step:
        """What is computed once and read by every layer: the angles of each kind of rope."""
        return Step(batch, cache, {kind: self.angles(rope, batch) for kind, rope in self.ropes.items()})

    def angles(self, r: HeldRope, b: Batch) -> Array:
        """Cosines and sines of every token's position, [T, 2, half]."""
        if r.rope.dynamic:
            lengths = b.lengths if b.prompts is None else b.prompts
            return dynamic_angles(b.positions, b.starts, lengths, *r.rope.dynamic, 2 * r.frequencies.size)
        axes = r.axes if len(b.positions.shape) > 1 else None  # of text alone all axes are one
        return rope_angles(b.positions, r.frequencies, r.rope.scale, axes)

    def embed(self, step: Step) -> Array:
        """[T, hidden]: the tokens' embeddings, and the images' in their places."""
        x = self.embed_tokens(step.batch.tokens, step)
        return x if step.batch.images is None else place(x, step.batch.images.rows, step.batch.images.values)

    def embed_tokens(self, tokens: Array, step: Step) -> Array:
        """[T, hidden]."""
        return embedding(self.top_weights.embed_tokens.weight, tokens)

    def layer(self, w: Layer, x: Array, step: Step) -> Array:
        """One block: [T, hidden] to [T, hidden]."""
        raise NotImplementedError(f"{type(self).__name__} doesn't define layer")

    def norm(self, x: Array, p: Param) -> Array:
        """The family's normalisation, over the last axis."""
        raise NotImplementedError(f"{type(self).__name__} doesn't define norm")

    def finish(self, x: Array) -> Array:
        """What follows the last layer."""
        return self.norm(x, self.top_weights.norm)

    def head(self, x: Array) -> Array:
        """[L, hidden] to logits [L, vocab]."""
        logits = (self.top_weights.embed_tokens if self.config.tied else self.top_weights.lm_head)(x)
        return softcap(logits, self.config.final_cap) if self.config.final_cap else logits

    def rotate(self, w: Layer, x: Array, step: Step) -> Array:
        """Turn heads by position, if this layer does."""
        return rotate(x, step.angles[w.config.kind], self.interleaved) if w.config.rope else x

    def attention(self, w: Layer, q: Array, k: Array, v: Array, step: Step, **extra: Any) -> Array:
        """Keep k and v, then attend over all that each token may see: [T, heads, head_dim]."""
        self.kept.write(w.index, step.view(w), k, v)
        return self.recall(w, w, q, step, **extra)

    def recall(self, w: Layer, source: Layer, q: Array, step: Step, **extra: Any) -> Array:
        """Attend over the keys and values that a layer keeps already."""
        kv, (keys, values) = step.view(source), self.kept.of(source.index)
        out = self.look(w, q, kv["k"], kv["v"], kv.group, step, keys, **codes_of(kv), **extra)
        return out if values == 1 else scale(out, values)

    def look(self, w: Layer, q: Array, k_pages: Array, v_pages: Array, group: Group, step: Step, keys: float = 1, **extra: Any) -> Array:
        """Attend over pages. `keys` times what they hold are the keys. `extra`: sinks, chosen, slopes, k_scales, v_scales."""
        b, c = step.batch, w.config
        by = c.scale * keys
        return paged_attention(q, k_pages, v_pages, group.table, b.starts, b.lengths, b.until, by, c.window, c.chunk, c.cap, **extra)


__all__ = [
    "Array",
    "Decoder",
    "Layer",
    "ModelConfig",
    "Names",
    "Network",
    "Param",
    "Rows",
    "Step",
    "Stored",
    "StoredExperts",
    "Values",
    "architecture",
    "flat",
    "heads",
]  # fmt: skip
