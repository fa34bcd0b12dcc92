"""Nemotron H: one part a layer, after one norm: a selective scan, unrotated attention, an MLP of squared ReLU, or experts of it."""

from typing import Any, ClassVar

from vtcore.kvcache.cache import Spec
from vtcore.models.decoder import Array, Layer, ModelConfig, Names, Step, StoredExperts, architecture
from vtcore.models.fields import Fields, Json
from vtcore.models.mamba2 import Mamba2
from vtcore.models.mixture import ROUTING, Mixture
from vtcore.models.selective import Scan, SelectiveScan, scan_names
from vtcore.ops import add, relu_squared

PATTERN = {"M": "mamba", "*": "full_attention", "-": "mlp", "E": "moe"}
PARTS = {"linear_attention": "mamba", "mamba": "mamba", "attention": "full_attention", "full_attention": "full_attention"}
PARTS |= {"mlp": "mlp", "moe": "moe"}


@architecture("NemotronHForCausalLM", gguf=("nemotron_h", "nemotron_h_moe"))
class NemotronH(SelectiveScan, Mixture):
    score: ClassVar[str] = "sigmoid"
    prefix: ClassVar[str] = Mamba2.prefix
    top: ClassVar[Names] = Mamba2.top
    defaults: ClassVar[Json] = ROUTING | {"layer_norm_epsilon": 1e-5, "n_groups": 8, "conv_kernel": 4}
    only: ClassVar[Json] = {"mlp_hidden_act": "relu2", "mamba_hidden_act": "silu", "residual_in_fp32": False, "moe_latent_size": None}
    kinds: ClassVar[frozenset[str]] = frozenset(PARTS.values())
    names: ClassVar[Names] = (
        scan_names("mixer")
        | {"input_layernorm": "norm"}
        | {n: f"mixer.{n}" for n in ("q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj")}
        | {"router": "mixer.gate", "router_bias": "mixer.gate.e_score_correction_bias"}
        | {f"experts_{n}": StoredExperts(f"mixer.experts.{{}}.{n}_proj") for n in ("up", "down")}
        | {f"shared_{n}": f"mixer.shared_experts.{n}_proj" for n in ("up", "down")}
    )

    @classmethod
    def read_config(cls, raw: Json, max_model_len: int | None = None, **source: Any) -> ModelConfig:
        f = Fields(raw, source.get("file", "config.json"))
        pattern = raw.get("hybrid_override_pattern")
        parts = [PATTERN.get(p, p) for p in pattern] if isinstance(pattern, str) else raw.get("layers_block_type")
        raw = {**raw, "layers_block_type": parts}
        count = f.integer("num_hidden_layers", high=1024) if parts is None else len(parts) if isinstance(parts, list) else 0
        listed = f.__class__(raw, f.file).words("layers_block_type", count, PARTS) or ()
        made = {"layer_types": [PARTS[p] for p in listed], "num_hidden_layers": count, "rope_theta": None, "rope_parameters": None}
        return super().read_config(raw | made, max_model_len, **source)

    def sizes(self, c: ModelConfig) -> Scan:
        return Scan(c.mamba_num_heads, c.mamba_head_dim, c.n_groups, c.ssm_state_size, c.conv_kernel)

    def caches(self, w: Layer) -> dict[str, Spec]:
        return {} if w.config.kind in ("mlp", "moe") else super().caches(w)

    def layer(self, w: Layer, x: Array, step: Step) -> Array:
        part = {"mamba": self.recur, "full_attention": self.attend, "mlp": self.mlp, "moe": self.mix}[w.config.kind]
        return add(x, part(w, self.norm(x, w.input_layernorm), step))

    def mlp(self, w: Layer, x: Array, step: Step) -> Array:
        return w.down_proj(relu_squared(w.up_proj(x)))

    def shared(self, w: Layer, x: Array) -> Array:
        return w.shared_down(relu_squared(w.shared_up(x)))

    def experts(self, w: Layer, x: Array, weights: Array, ids: Array, act: str = "relu2", **extra: Any) -> Array:
        stacks = w.experts_up, w.experts_down
        return self.weights.mixing(*stacks)(x, weights, ids, None, *stacks, act=act, **extra)
