"""DeepSeek 3.2 and GLM 5: DeepSeek 3, with an indexer that chooses what each token looks at; in GLM 5 some layers share a choice."""

from typing import Any, ClassVar

from vtcore.errors import ConfigError
from vtcore.kvcache.cache import Paged, Spec
from vtcore.models.decoder import Array, Layer, ModelConfig, Names, Step, architecture, heads
from vtcore.models.deepseek import DeepseekV3
from vtcore.models.fields import Fields, Json
from vtcore.models.latent import EPS, LatentAttention
from vtcore.ops import choose_entries, layer_norm, rotate, scale, write_pages

INDEXER = {"q": "wq_b", "k": "wk", "norm": "k_norm", "weights": "weights_proj"}


@architecture("DeepseekV32ForCausalLM")
class DeepseekV32(DeepseekV3):
    index_pairs: ClassVar[bool] = False  # the indexer turns halves, whatever attention does
    kinds: ClassVar[frozenset[str]] = frozenset({"full_attention", "indexed_attention"})
    names: ClassVar[Names] = DeepseekV3.names | {f"index_{n}": f"self_attn.indexer.{p}" for n, p in INDEXER.items()}

    def caches(self, w: Layer) -> dict[str, Spec]:
        return super().caches(w) | {"index": Paged({"k": (w.config.index_head_dim,)})}

    def choose(self, w: Layer, x: Array, low: Array, step: Step) -> dict[str, Array]:
        c, b, kept, angles = w.config, step.batch, step.view(w, "index"), step.angles[w.config.kind]
        q = rotate(heads(w.index_q(low), c.index_head_dim), angles, self.index_pairs)
        k = rotate(layer_norm(w.index_k(x), w.index_norm.weight, w.index_norm.bias, EPS)[:, None], angles, self.index_pairs)
        write_pages(kept["k"], k[:, 0], kept.group.slots)
        weights, table = scale(w.index_weights(x), c.index_n_heads**-0.5), kept.group.table
        return {"chosen": choose_entries(q, weights, kept["k"], table, b.starts, b.lengths, c.index_topk, 1, c.index_head_dim**-0.5)}


@architecture("GlmMoeDsaForCausalLM", gguf=("glm-dsa",))
class GlmMoeDsa(DeepseekV32):
    index_pairs: ClassVar[bool] = True
    only: ClassVar[Json] = DeepseekV32.only | {"indexer_rope_interleave": True}

    @classmethod
    def read_config(cls, raw: Json, max_model_len: int | None = None, **source: Any) -> ModelConfig:
        f = Fields(raw, source.get("file", "config.json"), source.get("spelled"))
        if (f.words("indexer_types", f.integer("num_hidden_layers"), ("full", "shared")) or ("full",))[0] == "shared":
            raise ConfigError(f"{f.file}: indexer_types begins with 'shared'; it must begin with 'full', since there is no choice before")
        return super().read_config(raw, max_model_len, **source)

    def chooses(self, w: Layer) -> bool:
        """Whether a layer has an indexer of its own."""
        types = w.config.rest.get("indexer_types")
        return types is None or types[w.index] == "full"

    def caches(self, w: Layer) -> dict[str, Spec]:
        return super().caches(w) if self.chooses(w) else LatentAttention.caches(self, w)

    def choose(self, w: Layer, x: Array, low: Array, step: Step) -> dict[str, Array]:
        if self.chooses(w):
            step.shared["chosen"] = super().choose(w, x, low, step)
        chosen: dict[str, Array] = step.shared.get("chosen", {})  # none where a survey has left the layer that chooses
        return chosen
