"""A mixture of experts: Llama, with routed experts in place of the MLP, and beside them a shared one if the family has it."""

from collections.abc import Mapping
from typing import Any, ClassVar

from vtcore.models.activations import GATES, MIXED
from vtcore.models.decoder import Array, Decoder, Layer, Names, Step, StoredExperts
from vtcore.models.fields import Json
from vtcore.models.llama import Llama
from vtcore.op import Op
from vtcore.ops import add, route

PARTS = ("gate", "up", "down")
ROUTING: Json = {"norm_topk_prob": True, "routed_scaling_factor": 1.0}

SIGMOID: Json = {"scoring_func": "sigmoid", "expert_gating_func": 2}  # what a family with sigmoid scores may be told of them


def each(path: str, names: tuple[str, ...] = ("gate_proj", "up_proj", "down_proj")) -> Names:
    """Experts that are stored one by one, under a path with {}."""
    return {f"experts_{part}": StoredExperts(f"{path}.{n}") for part, n in zip(PARTS, names, strict=True)}


def shared(path: str) -> Names:
    """The expert that every token goes to."""
    return {f"shared_{part}": f"{path}.{part}_proj" for part in PARTS}


ROUTED: Names = {"router": "mlp.gate", **each("mlp.experts.{}")}
BIASED: Names = {**ROUTED, **shared("mlp.shared_experts"), "router_bias": "mlp.gate.e_score_correction_bias"}


class Expert(Decoder):
    """Layers with experts, whatever else there is."""

    acts: ClassVar[Mapping[str, Op]] = {name: GATES[name] for name in MIXED}

    def experts(self, w: Layer, x: Array, weights: Array, ids: Array, act: str = "", **extra: Any) -> Array:
        """What the chosen experts say, weighed. act: another than the config's."""
        stacks = w.experts_gate, w.experts_up, w.experts_down
        return self.weights.mixing(*stacks)(x, weights, ids, *stacks, act=act or MIXED[self.config.act], **extra)


class Mixture(Expert, Llama):
    """What a family says by its tables: a bias for the choice, a shared expert? By config.json: renormalised, scaled, in groups?"""

    names: ClassVar[Names] = Llama.names | ROUTED
    defaults: ClassVar[Json] = Llama.defaults | ROUTING
    words: ClassVar[Mapping[str, str]] = {"num_local_experts": "num_experts", "n_routed_experts": "num_experts"}
    score: ClassVar[str] = "softmax"

    def mlp(self, w: Layer, x: Array, step: Step) -> Array:
        return super().mlp(w, x, step) if w.config.mlp_kind == "dense" else self.mix(w, x, step)

    def mix(self, w: Layer, x: Array, step: Step) -> Array:
        """[T, hidden] to [T, hidden]."""
        out = self.experts(w, x, *self.route(w, x))
        return add(out, self.shared(w, x)) if "shared_up" in self.dialect.names else out

    def shared(self, w: Layer, x: Array) -> Array:
        """What the shared expert says."""
        return w.shared_down(self.gate(w.shared_gate(x), w.shared_up(x)))

    def route(self, w: Layer, x: Array) -> tuple[Array, Array]:
        """Weights and numbers of each token's experts, [T, k]."""
        c = w.config
        bias = w.router_bias.reshape(-1) if "router_bias" in self.dialect.names else None
        k, groups = int(c.num_experts_per_tok), [int(c.rest.get(n) or 1) for n in ("n_group", "topk_group")]
        weights, ids = route(w.router(x), k, self.score, bias, *groups, c.norm_topk_prob, c.routed_scaling_factor)
        return weights, ids
