"""Granite MoE: Granite, with experts in place of the MLP, gate and up in one matrix; Shared: and an expert that every token goes to."""

from typing import ClassVar

from vtcore.models.decoder import Decoder, Names, Stored, StoredExperts, architecture
from vtcore.models.fields import Json
from vtcore.models.fused import GATE, UP
from vtcore.models.granite import Granite
from vtcore.models.llama import Llama
from vtcore.models.mixture import ROUTING, Mixture


@architecture("GraniteMoeForCausalLM", gguf=("granitemoe",))
class GraniteMoe(Mixture, Granite):
    defaults: ClassVar[Json] = Granite.defaults | ROUTING
    names: ClassVar[Names] = Llama.names | {
        "router": "block_sparse_moe.router.layer",
        "experts_gate": StoredExperts("block_sparse_moe.input_linear", GATE),
        "experts_up": StoredExperts("block_sparse_moe.input_linear", UP),
        "experts_down": StoredExperts("block_sparse_moe.output_linear"),
    }

    @classmethod
    def variant(cls, raw: Json) -> type[Decoder]:
        return GraniteMoeShared if raw.get("shared_intermediate_size") else cls  # GGUF has one name for both


@architecture("GraniteMoeSharedForCausalLM", within="granitemoe")
class GraniteMoeShared(GraniteMoe):
    names: ClassVar[Names] = GraniteMoe.names | {
        "shared_gate": Stored("shared_mlp.input_linear", GATE, both=True),
        "shared_up": Stored("shared_mlp.input_linear", UP, both=True),
        "shared_down": "shared_mlp.output_linear",
    }
