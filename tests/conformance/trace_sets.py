"""Small directories of FlashInfer Trace, written as its own are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

CODE = "raise SystemExit('a definition is read, not run')\n\nEPS = 1e-6\n\ndef run(*inputs):\n    pass\n"
VAR = {"type": "var"}
HEADS = {"num_qo_heads": 4, "num_kv_heads": 2, "head_dim": 8}
LATENT = {"num_qo_heads": 4, "head_dim_ckv": 16, "head_dim_kpe": 8}


def definition(name: str, kind: str, axes: dict[str, int | None], inputs: dict[str, str], reference: str = CODE) -> dict[str, Any]:
    """`inputs`: name -> "dtype axis axis", or "dtype" for a scalar."""
    specs = {n: {"dtype": text.split()[0], "shape": text.split()[1:] or None} for n, text in inputs.items()}
    sizes = {n: VAR if size is None else {"type": "const", "value": size} for n, size in axes.items()}
    return {"name": name, "op_type": kind, "axes": sizes, "inputs": specs, "outputs": {}, "reference": reference}


def norm(name: str, **more: str) -> dict[str, Any]:
    """A norm over 16 values."""
    rows = "bfloat16 batch_size hidden_size"
    inputs = {"hidden_states": rows} | ({"residual": rows} if "add" in name else {}) | {"weight": "bfloat16 hidden_size"} | more
    return definition(name, "rmsnorm", {"batch_size": None, "hidden_size": 16}, inputs)


GEMM = definition("gemm_n8_k16", "gemm", {"M": None, "N": 8, "K": 16}, {"A": "float16 M K", "B": "float16 N K"})
EMBEDDING = definition(
    "embedding_v50_d16", "embedding", {"batch_size": None, "vocab_size": 50, "embedding_dim": 16},
    {"input_ids": "int64 batch_size", "weight": "bfloat16 vocab_size embedding_dim"},
)  # fmt: skip


def paged(name: str, page: int) -> dict[str, Any]:
    """Attention over pages; `causal` in the name: several queries a sequence."""
    prefill, latent = "causal" in name, "mla" in name
    axes = {**(LATENT if latent else HEADS), "page_size": page, "rows": None, "num_pages": None, "len_indptr": None, "batch_size": None}
    cache = "bfloat16 num_pages page_size"
    own = (
        {
            "q_nope": "bfloat16 rows num_qo_heads head_dim_ckv", "q_pe": "bfloat16 rows num_qo_heads head_dim_kpe",
            "ckv_cache": f"{cache} head_dim_ckv", "kpe_cache": f"{cache} head_dim_kpe",
        }
        if latent
        else {"q": "bfloat16 rows num_qo_heads head_dim"} | dict.fromkeys(("k_cache", "v_cache"), f"{cache} num_kv_heads head_dim")
    )  # fmt: skip
    inputs = {
        **own, **({"qo_indptr": "int32 len_indptr"} if prefill else {}), "kv_indptr": "int32 len_indptr", "kv_indices": "int32 entries",
        **({"kv_last_page_len": "int32 batch_size"} if page > 1 else {}), "sm_scale": "float32",
    }  # fmt: skip
    return definition(name, "mla_paged" if latent else "gqa_paged", axes | {"entries": None}, inputs)


RAGGED = definition(
    "gqa_ragged_prefill_causal_h4_kv2_d8", "gqa_ragged", {**HEADS, "rows": None, "total_kv": None, "len_indptr": None},
    {
        "q": "bfloat16 rows num_qo_heads head_dim", "k": "bfloat16 total_kv num_kv_heads head_dim",
        "v": "bfloat16 total_kv num_kv_heads head_dim", "qo_indptr": "int32 len_indptr", "kv_indptr": "int32 len_indptr",
        "sm_scale": "float32",
    },
)  # fmt: skip


def random_inputs(d: dict[str, Any], stored: dict[str, Any], path: str) -> dict[str, Any]:
    """Those that aren't stored are random; numbers are scalars."""
    kinds = {n: {"type": "safetensors", "path": path, "tensor_key": n} for n in stored if isinstance(stored[n], np.ndarray)}
    kinds |= {n: {"type": "scalar", "value": v} for n, v in stored.items() if not isinstance(v, np.ndarray)}
    return {n: kinds.get(n, {"type": "random"}) for n in d["inputs"]}


def write(root: Path, d: dict[str, Any], *workloads: tuple[dict[str, int], dict[str, Any]]) -> Path:
    """Add a definition, and workloads of it: sizes of variable axes, and what is stored."""
    (root / "definitions" / d["op_type"]).mkdir(parents=True, exist_ok=True)
    (root / "definitions" / d["op_type"] / f"{d['name']}.json").write_text(json.dumps(d))
    lines = []
    for i, (axes, stored) in enumerate(workloads):
        path = f"./blob/{d['name']}_{i}.safetensors"
        (root / "blob").mkdir(exist_ok=True)
        save_file({n: a for n, a in stored.items() if isinstance(a, np.ndarray)}, root / path)
        lines.append({"definition": d["name"], "workload": {"uuid": f"u{i}", "axes": axes, "inputs": random_inputs(d, stored, path)}})
    if lines:
        (root / "workloads").mkdir(exist_ok=True)
        (root / "workloads" / f"{d['name']}.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    return root
