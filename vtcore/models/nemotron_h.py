"""Nemotron H: one part a layer, after one norm: a selective scan, unrotated attention, or an MLP of squared ReLU."""

from typing import Any, ClassVar

from vtcore.kvcache.cache import Spec
from vtcore.models.decoder import Array, Layer, ModelConfig, Names, Step, architecture
from vtcore.models.fields import Fields, Json
from vtcore.models.llama import Llama
from vtcore.models.mamba2 import Mamba2
from vtcore.models.selective import Scan, SelectiveScan, scan_names
from vtcore.ops import add, relu_squared

PATTERN = {"M": "mamba", "*": "full_attention", "-": "mlp", "E": "moe"}
PARTS = {"linear_attention": "mamba", "mamba": "mamba", "attention": "full_attention", "full_attention": "full_attention", "mlp": "mlp"}


@architecture("NemotronHForCausalLM", gguf=("nemotron_h",))
class NemotronH(SelectiveScan, Llama):
    prefix: ClassVar[str] = Mamba2.prefix
    top: ClassVar[Names] = Mamba2.top
    defaults: ClassVar[Json] = {"layer_norm_epsilon": 1e-5, "n_groups": 8, "conv_kernel": 4}
    only: ClassVar[Json] = {"mlp_hidden_act": "relu2", "mamba_hidden_act": "silu", "residual_in_fp32": False}
    kinds: ClassVar[frozenset[str]] = frozenset(PARTS.values())
    names: ClassVar[Names] = scan_names("mixer") | {
        n: f"mixer.{n}" for n in ("q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj")
    }

    @classmethod
    def read_config(cls, raw: Json, max_model_len: int | None = None, **source: Any) -> ModelConfig:
        f = Fields(raw, source.get("file", "config.json"))
        pattern = raw.get("hybrid_override_pattern")
        parts = [PATTERN.get(p, p) for p in pattern] if isinstance(pattern, str) else raw.get("layers_block_type")
        raw = {**raw, "layers_block_type": parts}
        count = len(parts) if isinstance(parts, list) else f.integer("num_hidden_layers", high=1024)
        listed = f.__class__(raw, f.file).words("layers_block_type", count, PARTS) or ()
        return super().read_config(raw | {"layer_types": [PARTS[p] for p in listed], "num_hidden_layers": count}, max_model_len, **source)

    def sizes(self, c: ModelConfig) -> Scan:
        return Scan(c.mamba_num_heads, c.mamba_head_dim, c.n_groups, c.ssm_state_size, c.conv_kernel)

    def caches(self, w: Layer) -> dict[str, Spec]:
        return {} if w.config.kind == "mlp" else super().caches(w)

    def layer(self, w: Layer, x: Array, step: Step) -> Array:
        part = {"mamba": self.recur, "full_attention": self.attend, "mlp": self.mlp}[w.config.kind]
        return add(x, part(w, self.norm(x, w.norm), step))

    def mlp(self, w: Layer, x: Array, step: Step) -> Array:
        return w.down_proj(relu_squared(w.up_proj(x)))
