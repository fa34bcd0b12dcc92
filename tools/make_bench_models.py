"""Make the models that the benchmarks compare engines on, out of the catalogue's SmolLM2. They are large: keep them out of the project.

python tools/make_bench_models.py DIRECTORY                 all that aren't there yet
python tools/make_bench_models.py DIRECTORY --only q8_0     these

q8_0, q4_0, bf16   SmolLM2-135M, its values taken from the Q4_1 file and stored anew; under q4_0 the embedding is Q8_0, as llama.cpp has it
hf                 the same values as bf16 as a directory with config.json and safetensors, without a tokenizer
q4_k, q6_k         random weights of a Llama whose rows are whole K-blocks (SmolLM2's are not), over 300 MB, with SmolLM2's tokenizer"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, quants
from safetensors.numpy import save_file

from vtcore.catalogue import resolve

Array = np.ndarray[Any, Any]
TYPES = GGMLQuantizationType
FILES = {
    "q8_0": "smollm2-135m-q8_0.gguf",
    "q4_0": "smollm2-135m-q4_0.gguf",
    "bf16": "smollm2-135m-bf16.gguf",
    "hf": "smollm2-135m-bf16",
    "q4_k": "synthetic-q4_k.gguf",
    "q6_k": "synthetic-q6_k.gguf",
}
HIDDEN, INNER, HEADS, KV_HEADS, HEAD_DIM = 1536, 4096, 24, 8, 64  # of the synthetic model
LAYERS = {"q4_k": 18, "q6_k": 12}
NAMES = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_output": "self_attn.o_proj",
    **{f"attn_{n}": f"self_attn.{n}_proj" for n in "qkv"}, **{f"ffn_{n}": f"mlp.{n}_proj" for n in ("gate", "up", "down")},
}  # fmt: skip


def make(name: str, directory: Path) -> Path:
    """One model, written beside its place and then moved there: what is there is whole."""
    target = directory / FILES[name]
    if target.exists():
        return target
    source, partial = GGUFReader(resolve("smollm2-135m")), target.with_name(target.name + ".part")
    MAKERS[name](source, partial)
    os.replace(partial, target)
    return target


def stored_as(kind: TYPES, embedding: TYPES) -> Callable[[GGUFReader, Path], None]:
    """SmolLM2 with its matrices in one format, and the embedding, which is the head too, in another."""

    def write(source: GGUFReader, target: Path) -> None:
        writer = GGUFWriter(str(target), "llama")
        copy_metadata(source, writer)
        for tensor in source.tensors:
            wanted = embedding if tensor.name == "token_embd.weight" else kind if len(tensor.shape) > 1 else TYPES.F32
            put(writer, tensor.name, values(tensor), wanted)
        finish(writer)

    return write


def synthetic(name: str, kind: TYPES) -> Callable[[GGUFReader, Path], None]:
    """Random blocks of one format; the embedding, which is the head too, in Q6_K."""

    def write(source: GGUFReader, target: Path) -> None:
        rng, writer = np.random.default_rng(0), GGUFWriter(str(target), "llama")
        copy_metadata(source, writer, only=("tokenizer.", "llama.vocab_size", "llama.rope.freq_base"))
        for key, value in numbers(LAYERS[name]).items():
            writer.add_key_value(f"llama.{key}", value, GGUFValueType.UINT32)
        writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
        vocab = next(int(t.shape[1]) for t in source.tensors if t.name == "token_embd.weight")
        writer.add_tensor("token_embd.weight", random_blocks(rng, TYPES.Q6_K, vocab, HIDDEN), raw_dtype=TYPES.Q6_K)
        writer.add_tensor("output_norm.weight", np.ones(HIDDEN, np.float32))
        for i in range(LAYERS[name]):
            for part, (rows, columns) in shapes().items():
                writer.add_tensor(f"blk.{i}.{part}.weight", random_blocks(rng, kind, rows, columns), raw_dtype=kind)
            for part in ("attn_norm", "ffn_norm"):
                writer.add_tensor(f"blk.{i}.{part}.weight", np.ones(HIDDEN, np.float32))
        finish(writer)

    return write


def numbers(layers: int) -> dict[str, int]:
    """The synthetic model's config."""
    return {
        "block_count": layers, "context_length": 4096, "embedding_length": HIDDEN, "feed_forward_length": INNER,
        "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS, "rope.dimension_count": HEAD_DIM,
    }  # fmt: skip


def shapes() -> dict[str, tuple[int, int]]:
    """Rows and columns of a synthetic layer's matrices."""
    return {
        "attn_q": (HIDDEN, HIDDEN), "attn_k": (KV_HEADS * HEAD_DIM, HIDDEN), "attn_v": (KV_HEADS * HEAD_DIM, HIDDEN),
        "attn_output": (HIDDEN, HIDDEN), "ffn_gate": (INNER, HIDDEN), "ffn_up": (INNER, HIDDEN), "ffn_down": (HIDDEN, INNER),
    }  # fmt: skip


def random_blocks(rng: np.random.Generator, kind: TYPES, rows: int, columns: int) -> Array:
    """uint8 [rows, bytes of a row]: random codes and sub-scales under scales that make weights of about 0.02."""
    blocks: Array = rng.integers(0, 256, (rows * columns // 256, {TYPES.Q4_K: 144, TYPES.Q6_K: 210}[kind]), np.uint8)
    if kind == TYPES.Q4_K:  # scale and minimum, float16 each: the codes' mean is scale * 31.5 * 7.5, and the minima's is minimum * 31.5
        blocks[:, :4] = np.array([8e-5, 7.5 * 8e-5], np.float16).view(np.uint8)
    else:  # 16 signed sub-scales before the scale
        blocks[:, 192:208] = rng.integers(-32, 32, (len(blocks), 16)).astype(np.int8).view(np.uint8)
        blocks[:, 208:] = np.array([6e-5], np.float16).view(np.uint8)
    return blocks.reshape(rows, -1)


def as_directory(source: GGUFReader, target: Path) -> None:
    """SmolLM2 as transformers names things: q and k turned back from the order that GGUF keeps them in."""
    m = {f.name: f.contents() for f in source.fields.values()}
    target.mkdir(exist_ok=True)
    heads, kv_heads = m["llama.attention.head_count"], m["llama.attention.head_count_kv"]
    tensors: dict[str, Array] = {}
    for tensor in source.tensors:
        value, part = values(tensor), tensor.name.split(".")[-2]
        if part in ("attn_q", "attn_k"):
            value = value.reshape(heads if part == "attn_q" else kv_heads, -1, 2, value.shape[1]).swapaxes(1, 2).reshape(value.shape)
        tensors[hf_name(tensor.name)] = np.ascontiguousarray(value.astype(ml_dtypes.bfloat16))
    save_file(tensors, target / "model.safetensors", {"format": "pt"})
    (target / "config.json").write_text(json.dumps(hf_config(m), indent=1))


def hf_name(name: str) -> str:
    """GGUF's name of a Llama tensor in transformers' words."""
    if name.startswith("blk."):
        _, layer, part, _ = name.split(".")
        return f"model.layers.{layer}.{NAMES[part]}.weight"
    return {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}[name]


def hf_config(m: dict[str, Any]) -> dict[str, Any]:
    """GGUF metadata of a Llama as config.json."""
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16", "tie_word_embeddings": True,
        "num_hidden_layers": m["llama.block_count"], "hidden_size": m["llama.embedding_length"], "hidden_act": "silu",
        "intermediate_size": m["llama.feed_forward_length"], "num_attention_heads": m["llama.attention.head_count"],
        "num_key_value_heads": m["llama.attention.head_count_kv"], "vocab_size": m["llama.vocab_size"],
        "max_position_embeddings": m["llama.context_length"], "rope_theta": m["llama.rope.freq_base"],
        "rms_norm_eps": m["llama.attention.layer_norm_rms_epsilon"], "bos_token_id": m["tokenizer.ggml.bos_token_id"],
        "eos_token_id": m["tokenizer.ggml.eos_token_id"],
    }  # fmt: skip


def values(tensor: Any) -> Array:
    """float32."""
    out: Array = quants.dequantize(tensor.data, tensor.tensor_type)
    return out


def put(writer: GGUFWriter, name: str, value: Array, kind: TYPES) -> None:
    """One tensor in a format."""
    writer.add_tensor(name, value if kind == TYPES.F32 else quants.quantize(value, kind), raw_dtype=kind)


def copy_metadata(source: GGUFReader, writer: GGUFWriter, only: tuple[str, ...] = ("",)) -> None:
    """Every entry whose key begins with one of `only`, besides what the writer says itself or what the new formats make untrue."""
    for field in source.fields.values():
        if field.name.startswith(only) and not field.name.startswith(("GGUF.", "general.architecture", "general.file_type")):
            writer.add_key_value(field.name, field.contents(), field.types[0], field.types[-1] if len(field.types) > 1 else None)


def finish(writer: GGUFWriter) -> None:
    """Write it all."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


MAKERS: dict[str, Callable[[GGUFReader, Path], None]] = {
    "q8_0": stored_as(TYPES.Q8_0, TYPES.Q8_0),
    "q4_0": stored_as(TYPES.Q4_0, TYPES.Q8_0),
    "bf16": stored_as(TYPES.BF16, TYPES.BF16),
    "hf": as_directory,
    "q4_k": synthetic("q4_k", TYPES.Q4_K),
    "q6_k": synthetic("q6_k", TYPES.Q6_K),
}


def main() -> int:
    """Make what is asked for and print where it is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--only", metavar="A,B", default=",".join(FILES), help=f"of {', '.join(FILES)}")
    wanted = parser.parse_args()
    names = wanted.only.split(",")
    if unknown := [n for n in names if n not in FILES]:
        parser.error(f"there is no model {', '.join(unknown)}; there are {', '.join(FILES)}")
    wanted.directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        print(make(name, wanted.directory))
    return 0


if __name__ == "__main__":
    sys.exit(main())
