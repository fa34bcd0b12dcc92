"""A golden's checkpoint as llama.cpp's converter writes it, made with the gguf package alone: nothing here is shared with the reader.

Names come from the package's own map. Values change where the converter changes them: q and k of Llama's family are paired for a rope that
turns neighbours, Gemma's norms are stored plus one, Llama 3's rope becomes a tensor of divisors, Phi's two lists of factors are tensors."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from tests import gguf_families, gguf_mixtures, gguf_states
from tests.gguf_families import FAMILIES, llama3_divisors, paired
from tests.gguf_states import STATES, WHOLE
from vtcore.conformance.golden import Golden

ARCHITECTURES = {
    "LlamaForCausalLM": "llama", "InternLM3ForCausalLM": "llama", "MistralForCausalLM": "llama", "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3", "SmolLM3ForCausalLM": "smollm3", "Phi3ForCausalLM": "phi3", "GraniteForCausalLM": "granite",
    "GemmaForCausalLM": "gemma", "Gemma2ForCausalLM": "gemma2", "Gemma3ForCausalLM": "gemma3", **FAMILIES, **STATES,
}  # fmt: skip
PAIRED = {"llama", "smollm3", "granite"}  # q and k are permuted
PLUS_ONE = {"gemma", "gemma2", "gemma3"}
UNSAID = {  # what the format has no word for
    "llama_rope_dynamic": "a rope that depends on the length",
    "llama_rope_alpha": "a rope's alpha in this architecture",
    "llama_rope_yarn_mscale": "yarn's two mscales",
    "mistral_sliding": "a window in this architecture",
    "qwen2_sliding": "a window in this architecture",
    "gemma2": "a scale of scores that is not that of the head's width",
    "gemma3": "a scale of scores that is not that of the head's width",
    "gemma3_rope_linear": "a scale of scores that is not that of the head's width",
}
Type = gguf.GGMLQuantizationType


def convert(golden: Golden, path: Path, kind: Type = Type.F32, lossy: bool = False) -> Path:
    """Write the file: matrices as `kind` if their rows are whole blocks of it, all else in float32. `lossy`: these in float32 too, as what
    is left of them in that kind."""
    writer, tensors = converted(golden, path)
    for tensor, value in tensors.items():
        matrix = value.ndim > 1 and gguf_name(golden) not in WHOLE and tensor.endswith(".weight") and "conv" not in tensor
        if matrix and lossy:
            writer.add_tensor(tensor, gguf.dequantize(gguf.quantize(value, kind), kind))
        elif matrix and value.shape[-1] % gguf.GGML_QUANT_SIZES[kind][0] == 0 and kind is not Type.F32:
            writer.add_tensor(tensor, gguf.quantize(value, kind), raw_dtype=kind)
        else:
            writer.add_tensor(tensor, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def parts(golden: Golden) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The file's metadata and tensors, to be changed before `writers.write_gguf` writes them."""
    writer, tensors = converted(golden, None)
    return {key: value.value for key, value in writer.kv_data[0].items()}, tensors


def converted(golden: Golden, path: Path | None) -> tuple[gguf.GGUFWriter, dict[str, np.ndarray]]:
    """A writer that has the metadata, and the tensors by their names."""
    config, name = golden.config, gguf_name(golden)
    writer = gguf.GGUFWriter(path, name)
    if golden.architecture in STATES:
        gguf_states.add_numbers(writer, name, config)
        made = gguf_states.tensors(golden.weights(), name, config)
    elif golden.architecture in FAMILIES:
        gguf_families.add_numbers(writer, name, config)
        made = gguf_families.tensors(writer, golden, name)
    else:
        add_numbers(writer, config)
        add_special(writer, name, config)
        made = tensors(golden, name)
    architecture = next(a for a, text in gguf.MODEL_ARCH_NAMES.items() if text == name)
    names = gguf.get_tensor_name_map(architecture, 16)
    return writer, {named(names, old): np.ascontiguousarray(value) for old, value in made}


def named(names: gguf.TensorNameMap, old: str) -> str:
    """The format's name of a tensor."""
    if old.startswith(("rope_f", "blk.")):
        return old
    new = names.get_name(old, try_suffixes=(".weight", ".bias"))
    assert new is not None, f"the package has no name for {old}"
    return str(new)


def gguf_name(golden: Golden) -> str:
    """The name of the architecture."""
    known = golden.architecture in STATES
    return gguf_states.name_of(golden.architecture, golden.config) if known else ARCHITECTURES[golden.architecture]


def add_numbers(writer: gguf.GGUFWriter, c: dict[str, Any]) -> None:
    head = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    rope = c["rope_parameters"].get("full_attention", c["rope_parameters"])
    writer.add_context_length(c["max_position_embeddings"])
    writer.add_embedding_length(c["hidden_size"])
    writer.add_block_count(c["num_hidden_layers"])
    writer.add_feed_forward_length(c["intermediate_size"])
    writer.add_head_count(c["num_attention_heads"])
    writer.add_head_count_kv(c["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(c["rms_norm_eps"])
    writer.add_vocab_size(c["vocab_size"])
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_rope_dimension_count(int(head * rope.get("partial_rotary_factor", 1.0)))
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
        writer.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])


def add_special(writer: gguf.GGUFWriter, name: str, c: dict[str, Any]) -> None:
    if name == "granite":
        gguf_mixtures.add_multipliers(writer, c)
    if name == "gemma2":
        writer.add_attn_logit_softcapping(c["attn_logit_softcapping"])
        writer.add_final_logit_softcapping(c["final_logit_softcapping"])
    if name in ("gemma2", "gemma3"):
        writer.add_sliding_window(c["sliding_window"])
    if name == "phi3":
        writer.add_sliding_window(c["sliding_window"] or 0)
        original = c["original_max_position_embeddings"]
        writer.add_rope_scaling_orig_ctx_len(original)
        if c["rope_parameters"]["rope_type"] == "longrope":
            stretch = c["max_position_embeddings"] / original
            writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(stretch) / math.log(original)))


def tensors(golden: Golden, name: str) -> Iterator[tuple[str, np.ndarray]]:
    c = golden.config
    for old, value in golden.weights().items():
        if name in PAIRED and "q_proj" in old:
            value = paired(value, c["num_attention_heads"])
        elif name in PAIRED and "k_proj" in old:
            value = paired(value, c["num_key_value_heads"])
        elif name in PLUS_ONE and old.endswith("norm.weight"):
            value = value + 1
        yield old, value
    rope = c["rope_parameters"]
    if rope.get("rope_type") == "llama3":
        yield "rope_freqs.weight", llama3_divisors(c, rope)
    if rope.get("rope_type") == "longrope":
        yield "rope_factors_long.weight", np.array(rope["long_factor"], np.float32)
        yield "rope_factors_short.weight", np.array(rope["short_factor"], np.float32)
