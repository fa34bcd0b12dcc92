"""Checkpoints for several media, of which the text model is read: another architecture of this package, under a part of the config and of
the tensors' names. What the other parts hold is set aside, and said to be."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from vtcore.errors import ConfigError
from vtcore.formats.metadata import short
from vtcore.models.decoder import Decoder, architecture
from vtcore.models.fields import Fields, Json
from vtcore.models.gemma3 import Gemma3
from vtcore.models.gemma3n import Gemma3n
from vtcore.models.gemma4 import Gemma4
from vtcore.models.llama4 import Llama4
from vtcore.models.names import Dialect, Names
from vtcore.models.qwen2 import Qwen2
from vtcore.models.qwen3 import Qwen3
from vtcore.models.qwen3_5 import Qwen35
from vtcore.models.qwen3_5_moe import Qwen35Moe
from vtcore.models.registry import ARCHITECTURES, find

TEXT = ("text_config", "llm_config")  # what configs call the text model's part
MEDIA = ("vision_config", "audio_config")
ROOTS = ("language_model.model.", "model.language_model.", "model.text_model.")  # where its tensors are, by age and family
WRAPPERS: dict[type[Decoder], tuple[str, ...]] = {  # of one family each
    Gemma3n: ("Gemma3nForConditionalGeneration",),
    Gemma3: ("Gemma3ForConditionalGeneration",),
    Gemma4: ("Gemma4ForConditionalGeneration",),
    Llama4: ("Llama4ForConditionalGeneration",),
    Qwen2: ("Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"),
    Qwen3: ("Qwen3VLForConditionalGeneration",),
    Qwen35: ("Qwen3_5ForConditionalGeneration",),
    Qwen35Moe: ("Qwen3_5MoeForConditionalGeneration",),
}
for _cls, _names in WRAPPERS.items():
    architecture(*_names)(_cls)
SAME = {"kimik2": "DeepseekV3ForCausalLM"}  # model types whose class has another name
SIZES: dict[str, Json] = {  # what old configs leave out: transformers' own defaults
    "llama": {"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32},
    "mistral": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32},
}


@architecture(
    "LlavaForConditionalGeneration", "VoxtralForConditionalGeneration", "SmolVLMForConditionalGeneration",
    "Idefics3ForConditionalGeneration", "Mistral3ForConditionalGeneration", "InternVLForConditionalGeneration",
    "Kimi_K25ForConditionalGeneration", "KimiK25ForConditionalGeneration",
)  # fmt: skip
class Wrapped(Decoder):
    """Of any family: the text part's model_type says which."""

    @classmethod
    def variant(cls, raw: Json) -> type[Decoder]:
        kind = raw.get("model_type")
        known = {re.sub("[_-]|ForCausalLM", "", name).lower(): name for name in ARCHITECTURES if name.endswith("ForCausalLM")}
        wanted = re.sub("_text$|_", "", kind) if isinstance(kind, str) else ""
        if (name := SAME.get(wanted, known.get(wanted))) is None:
            raise ConfigError(f"text_config's model_type is {short(kind)}; it must be one of {', '.join(sorted({*known, *SAME}))}")
        found = find([name], ARCHITECTURES)
        assert issubclass(found, Decoder), "every ForCausalLM is one"
        return found.variant(raw)


def text_config(raw: Json, file: str) -> Json:
    """A config with the text part's numbers on top, if there is such a part."""
    fields = Fields(raw, file)
    own = next((fields.mapping(part) for part in TEXT if fields.has(part)), {})
    tied = {"tie_word_embeddings": raw["tie_word_embeddings"]} if fields.has("tie_word_embeddings") else {}  # the head is the whole's
    return {**SIZES.get(str(own.get("model_type")), {}), **raw, **own, **tied}


def unwrapped(dialect: Dialect, raw: Json, tensors: Mapping[str, object]) -> Dialect:
    """The same tables, for a checkpoint in which the text model is a part of something larger."""
    root = next((r for r in ROOTS if any(n.startswith(r) for n in tensors)), None)
    if root is None:  # the oldest Qwen VL: as if alone, with a tower beside it
        return replace(dialect, root="model.") if any(raw.get(n) for n in MEDIA) else dialect
    before = root.removesuffix("model.") if root.endswith(".model.") else ""

    def moved(path: str) -> str:
        if path.startswith("model."):
            return root + path.removeprefix("model.")
        return before + path if f"{before}{path}.weight" in tensors else path

    top: Names = {n: replace(dialect.find(n, dialect.top), path=moved(dialect.find(n, dialect.top).path)) for n in dialect.top}
    return replace(dialect, top=top, prefix=moved(dialect.prefix), root=root)


def beside(dialect: Dialect, names: Iterable[str], read: Iterable[str]) -> list[str]:
    """Tensors of the parts that are not read."""
    known = frozenset(read)
    return [n for n in names if not n.startswith(dialect.root) and n not in known] if dialect.root else []
