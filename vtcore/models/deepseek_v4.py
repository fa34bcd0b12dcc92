"""DeepSeek 4: a residual of four streams; one key that is also the value, for a window and, compressed, for the far past; rotation at the
end of each head, undone on the output; an output projection in groups; first layers whose experts the token's number names."""

from dataclasses import replace
from typing import Any, ClassVar

from vtcore.kvcache.cache import Cache, Paged, Spec, View
from vtcore.models.batch import Batch
from vtcore.models.config import LAYERS
from vtcore.models.decoder import Array, Layer, ModelConfig, Names, Step, Stored, Values, architecture, flat, heads
from vtcore.models.deepseek_v4_config import FOLDS, read_ratios, read_ropes
from vtcore.models.fields import Fields, Json
from vtcore.models.mixture import Mixture, each
from vtcore.models.names import Below
from vtcore.ops import (
    add,
    choose_entries,
    compress,
    compressed_attention,
    concat,
    hyper_head,
    hyper_in,
    hyper_out,
    linear,
    look_up,
    per_head,
    rms_norm,
    rope_angles,
    rotate,
    route,
    scale,
    silu_mul,
    write_pages,
)

FOLD = {"kv": "wkv", "gate": "wgate", "ape": "ape", "norm": "norm"}  # a compressor's weights
GROUPED = Values(lambda rows, c: rows.reshape(c.o_groups, c.o_lora_rank, -1).swapaxes(1, 2))


@architecture("DeepseekV4ForCausalLM")
class DeepseekV4(Mixture):
    prefix: ClassVar[str] = "layers.{}."
    top: ClassVar[Names] = {"embed_tokens": "embed", "norm": "norm", "lm_head": "head"}
    kinds: ClassVar[frozenset[str]] = frozenset(FOLDS)
    only: ClassVar[Json] = {"scoring_func": "sqrtsoftplus", "topk_method": "noaux_tc", "hidden_act": "silu"}
    defaults: ClassVar[Json] = Mixture.defaults | {"use_sliding_window": True}
    names: ClassVar[Names] = {
        **{n: f"attn.{n}" for n in ("wq_a", "q_norm", "wq_b", "wkv", "kv_norm", "wo_b", "attn_sink")},
        "wo_a": Stored("attn.wo_a", GROUPED, bare=True),  # [groups, heads of a group * head_dim, rank]
        **{f"far_{n}": f"attn.compressor.{p}" for n, p in FOLD.items()},
        **{f"index_{n}": f"attn.indexer.compressor.{p}" for n, p in FOLD.items()},
        "index_q": "attn.indexer.wq_b",
        "index_weights": "attn.indexer.weights_proj",
        **{"router": "ffn.gate.weight", "router_bias": "ffn.gate.bias"},
        "by_token": Stored("ffn.gate.tid2eid", Below("num_experts")),
        **each("ffn.experts.{}", ("w1", "w3", "w2")),
        **{f"shared_{n}": f"ffn.shared_experts.{s}" for n, s in (("gate", "w1"), ("up", "w3"), ("down", "w2"))},
    }

    @classmethod
    def read_config(cls, raw: Json, max_model_len: int | None = None, **source: Any) -> ModelConfig:
        f = Fields(raw, source.get("file", "config.json"), source.get("spelled"))
        raw = raw | read_ratios(f) | read_ropes(f)
        whole = Fields(raw, f.file)
        rates, kinds = whole.mapping("compress_rates"), whole.words("layer_types", whole.integer("num_hidden_layers", high=LAYERS), FOLDS)
        for kind in sorted({*rates, *(kinds or ())} - {FOLDS[0]}):
            Fields(rates, f"{f.file}: compress_rates").integer(kind, low=2)
        return super().read_config(raw | {"compress_rates": rates}, max_model_len, **source)

    def layer_config(self, index: int) -> ModelConfig:
        return replace(super().layer_config(index), window=self.config.window)

    def every(self, c: ModelConfig) -> int:
        """Of how many tokens a layer makes one entry; 0: it does not."""
        return int(c.compress_rates.get(c.kind, 0))

    def folds(self, c: ModelConfig) -> int:
        """How many compressors a layer has: none, one, or one more for its indexer."""
        return FOLDS.index(c.kind)

    def caches(self, w: Layer) -> dict[str, Spec]:
        c, folds, every = w.config, self.folds(w.config), self.every(w.config)
        kept: dict[str, Spec] = {"kv": Paged({"kv": (1, c.head_dim)}, c.window)}
        for name in ("far", "index")[:folds]:
            width = c.head_dim if name == "far" else c.index_head_dim
            series = (folds * width,)  # with an indexer, windows overlap: two series
            kept[name + "_raw"] = Paged({"kv": series, "gate": series}, folds * every)
            kept[name] = Paged({"kv": (1, width)}, every=every)
        return kept

    def begin(self, batch: Batch, cache: Cache) -> Step:
        """The angles of tokens, and those of the windows that they close."""
        step = super().begin(batch, cache)
        for kind, every in self.config.compress_rates.items():
            if r := self.ropes.get(kind):
                step.angles[kind + "/window"] = rope_angles(batch.positions, r.frequencies, r.rope.scale, None, every)
        return step

    def embed_tokens(self, tokens: Array, step: Step) -> Array:
        x = one = super().embed_tokens(tokens, step)
        for _ in range(self.config.hc_mult - 1):
            x = concat(x, one)
        return heads(x, one.shape[1])

    def layer(self, w: Layer, x: Array, step: Step) -> Array:
        h, post, comb = self.collapse(x, w.hc_attn_fn, w.hc_attn_base, w.hc_attn_scale)
        x = hyper_out(x, self.attend(w, self.norm(h, w.attn_norm), step), post, comb)
        h, post, comb = self.collapse(x, w.hc_ffn_fn, w.hc_ffn_base, w.hc_ffn_scale)
        return hyper_out(x, self.mlp(w, self.norm(h, w.ffn_norm), step), post, comb)

    def collapse(self, x: Array, fn: Array, base: Array, scales: Array) -> tuple[Array, Array, Array]:
        """A block's input, and how its output will be spread."""
        c = self.config
        h, post, comb = hyper_in(x, fn, base, scales, c.hc_sinkhorn_iters, c.hc_eps, c.eps)
        return h, post, comb

    def finish(self, x: Array) -> Array:
        t, c = self.top_weights, self.config
        return self.norm(hyper_head(x, t.hc_head_fn, t.hc_head_base, t.hc_head_scale, c.hc_eps, c.eps), t.norm)

    def attend(self, w: Layer, x: Array, step: Step) -> Array:
        c, b, kv, angles = w.config, step.batch, step.view(w), step.angles[w.config.kind]
        low = self.norm(w.wq_a(x), w.q_norm)
        q = self.turn(rms_norm(heads(w.wq_b(low), c.head_dim), None, c.eps), angles)
        write_pages(kv["kv"], self.turn(self.norm(w.wkv(x), w.kv_norm)[:, None], angles), kv.group.slots)
        if every := self.every(c):
            far, chosen = self.fold(w, x, step, "far"), self.choose(w, x, low, step) if self.folds(c) > 1 else None
            tables = kv.group.table, far.group.table
            out = compressed_attention(q, kv["kv"], far["kv"], *tables, b.starts, b.lengths, c.scale, c.window, every, w.attn_sink, chosen)
        else:
            out = self.look(w, q, kv["kv"], kv["kv"], kv.group, step, sinks=w.attn_sink)
        return self.output(w, x, self.turn(out, angles, inverse=True))

    def output(self, w: Layer, x: Array, out: Array) -> Array:
        return w.wo_b(flat(per_head(heads(flat(out), w.wo_a.shape[1]), w.wo_a)))

    def turn(self, x: Array, angles: Array, inverse: bool = False) -> Array:
        """Rotate the last channels of each head, in pairs."""
        still = x.shape[-1] - 2 * angles.shape[-1]
        return concat(x[..., :still], rotate(x[..., still:], angles, interleaved=True, inverse=inverse))

    def fold(self, w: Layer, x: Array, step: Step, name: str) -> View:
        """Keep what a compressor reads, and the entries of the windows that close here."""
        kv, gate, ape, norm = (getattr(w, f"{name}_{part}") for part in FOLD)
        raw, far, b = step.view(w, name + "_raw"), step.view(w, name), step.batch
        write_pages(raw["kv"], kv(x), raw.group.slots)
        write_pages(raw["gate"], gate(x), raw.group.slots)
        entry = compress(raw["kv"], raw["gate"], ape, norm.weight, raw.group.table, far.group.slots, b.starts, b.lengths, self.config.eps)
        write_pages(far["kv"], self.turn(entry[:, None], step.angles[w.config.kind + "/window"]), far.group.slots)
        return far

    def choose(self, w: Layer, x: Array, low: Array, step: Step) -> Array:
        """The indexer: which compressed entries each token looks at."""
        c, b, far = w.config, step.batch, self.fold(w, x, step, "index")
        q = self.turn(heads(w.index_q(low), c.index_head_dim), step.angles[c.kind])
        weights, keys = scale(w.index_weights(x), c.index_n_heads**-0.5), far["kv"][:, :, 0]
        return choose_entries(q, weights, keys, far.group.table, b.starts, b.lengths, c.index_topk, self.every(c), c.index_head_dim**-0.5)

    def mlp(self, w: Layer, x: Array, step: Step) -> Array:
        c = w.config
        hashed = look_up(w.by_token, step.batch.tokens) if c.mlp_kind == "hash_moe" else None
        bias = w.router_bias if hashed is None else None
        logits, k = linear(x, w.router), c.num_experts_per_tok
        weights, ids = route(logits, k, c.scoring_func, bias, 1, 1, c.norm_topk_prob, c.routed_scaling_factor, hashed)
        return add(self.experts(w, x, weights, ids, limit=c.swiglu_limit), self.shared(w, x))

    def shared(self, w: Layer, x: Array) -> Array:
        return w.shared_down(silu_mul(w.shared_gate(x), w.shared_up(x), self.config.swiglu_limit))
