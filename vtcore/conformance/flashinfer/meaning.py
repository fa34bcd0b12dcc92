"""Which definitions of FlashInfer Trace mean the same as an op here, and how their inputs become its arguments; of the others, why not.

What a definition computes is in Python code, which isn't run: it is known by its name, which must say nothing more than is understood,
and by its inputs. An epsilon is read from the code's assignment of a number to EPS."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vtcore.conformance.flashinfer.schema import Json
from vtcore.op import REGISTRY, Call, Op

Array = np.ndarray[Any, Any]
Inputs = Mapping[str, Any]  # arrays, and scalars, by name
SIZES = r"_h\d+_kv\d+_d\d+"
LATENT = r"_h\d+_ckv\d+_kpe\d+"
PAGED = {"kv_indptr", "kv_indices", "sm_scale"}


@dataclass(frozen=True)
class Meaning:
    """A definition's op: the names that mean it, the inputs that it must have, and how they become a call."""

    names: re.Pattern[str]
    op: str
    inputs: frozenset[str]
    optional: frozenset[str]
    build: Callable[[Json, Inputs], Call]


@dataclass(frozen=True)
class Understood:
    """What a definition is here."""

    op: Op
    build: Callable[[Json, Inputs], Call]


def understand(definition: Json) -> Understood | str:
    """The op that a definition means, or the reason why none does."""
    name, inputs = definition["name"], set(definition["inputs"])
    found = next((m for m in MEANINGS if m.names.fullmatch(name)), None)
    if found is None:
        return OTHERS.get(definition["op_type"], f"no op is known to mean definitions of type {definition['op_type']!r}, or this name")
    if not found.inputs <= inputs <= found.inputs | found.optional:
        return f"its inputs are {', '.join(sorted(inputs))}; {found.op} is known to mean {', '.join(sorted(found.inputs))}"
    if found.op.endswith("rms_norm") and epsilon(definition) is None:
        return "its reference assigns no number to EPS, so its epsilon is unknown"
    return Understood(REGISTRY[found.op], found.build)


def epsilon(definition: Json) -> float | None:
    """The number that a definition's code assigns to EPS. The code is parsed, never run."""
    for node in ast.walk(ast.parse(definition["reference"])):
        if isinstance(node, ast.Assign) and [getattr(t, "id", "") for t in node.targets] == ["EPS"]:
            value: Any = getattr(node.value, "value", None)
            return float(value) if type(value) in (int, float) else None
    return None


def _rms_norm(definition: Json, inputs: Inputs) -> Call:
    offset = 1.0 if definition["name"].startswith("gemma") else 0.0
    return {"x": inputs["hidden_states"], "weight": inputs["weight"], "eps": epsilon(definition), "offset": offset}


def _add_rms_norm(definition: Json, inputs: Inputs) -> Call:
    return {**_rms_norm(definition, inputs), "residual": inputs["residual"]}


def _linear(definition: Json, inputs: Inputs) -> Call:
    return {"x": inputs["A"], "weight": inputs["B"]}


def _embedding(definition: Json, inputs: Inputs) -> Call:
    return {"table": inputs["weight"], "ids": inputs["input_ids"]}


def _paged(definition: Json, inputs: Inputs) -> Call:
    return _attention(inputs["q"], inputs["k_cache"], inputs["v_cache"], inputs)


def _ragged(definition: Json, inputs: Inputs) -> Call:
    """Every token a page of its own, in order."""
    own = {**inputs, "kv_indices": np.arange(len(inputs["k"]), dtype=np.int32)}
    return _attention(inputs["q"], inputs["k"][:, None], inputs["v"][:, None], own)


def _latent(definition: Json, inputs: Inputs) -> Call:
    """One head of keys, the compressed part and the part with positions side by side; the compressed part is the values."""
    q = np.concatenate([inputs["q_nope"], inputs["q_pe"]], -1)
    k = np.concatenate([inputs["ckv_cache"], inputs["kpe_cache"]], -1)[:, :, None]
    return _attention(q, k, k[..., : inputs["ckv_cache"].shape[-1]], inputs)


def _attention(q: Array, k: Array, v: Array, inputs: Inputs) -> Call:
    """`until` is causal: the queries of a sequence are its last tokens."""
    pages = inputs["kv_indptr"]
    starts = inputs.get("qo_indptr", np.arange(len(q) + 1, dtype=np.int32))
    counts = np.diff(pages)
    last = inputs.get("kv_last_page_len", np.full(len(counts), k.shape[1]))
    lengths = np.where(counts > 0, (counts - 1) * k.shape[1] + last, 0).astype(np.int32)
    table = np.zeros((len(counts), max(1, counts.max(initial=0))), np.int32)
    for row, begin, end in zip(table, pages[:-1], pages[1:], strict=True):
        row[: end - begin] = inputs["kv_indices"][begin:end]
    index = [np.arange(n - new, n) for n, new in zip(lengths, np.diff(starts), strict=True)]
    until = np.concatenate([*index, np.zeros(0)]).astype(np.int32)
    batch = {"table": table, "starts": starts.astype(np.int32), "lengths": lengths, "until": until}
    return {"q": q, "k_pages": k, "v_pages": v, **batch, "scale": float(inputs["sm_scale"])}


def _meaning(names: str, op: str, inputs: set[str], build: Callable[[Json, Inputs], Call], optional: set[str] | None = None) -> Meaning:
    return Meaning(re.compile(names), op, frozenset(inputs), frozenset(optional or ()), build)


LAST = {"kv_last_page_len"}
MEANINGS = (
    _meaning(r"(gemma_)?rmsnorm_h\d+", "rms_norm", {"hidden_states", "weight"}, _rms_norm),
    _meaning(r"(gemma_)?fused_add_rmsnorm_h\d+", "add_rms_norm", {"hidden_states", "residual", "weight"}, _add_rms_norm),
    _meaning(r"gemm_n\d+_k\d+", "linear", {"A", "B"}, _linear),
    _meaning(r"embedding_v\d+_d\d+", "embedding", {"input_ids", "weight"}, _embedding),
    _meaning(rf"gqa_paged_decode{SIZES}_ps\d+", "paged_attention", {"q", "k_cache", "v_cache"} | PAGED, _paged, LAST),
    _meaning(
        rf"gqa_paged_prefill_causal{SIZES}_ps\d+", "paged_attention", {"q", "k_cache", "v_cache", "qo_indptr"} | PAGED, _paged, LAST
    ),
    _meaning(
        rf"gqa_ragged_prefill_causal{SIZES}", "paged_attention", {"q", "k", "v", "qo_indptr", "kv_indptr", "sm_scale"}, _ragged
    ),
    _meaning(
        rf"mla_paged_decode{LATENT}_ps\d+", "paged_attention", {"q_nope", "q_pe", "ckv_cache", "kpe_cache"} | PAGED, _latent, LAST
    ),
    _meaning(
        rf"mla_paged_prefill_causal{LATENT}_ps\d+", "paged_attention",
        {"q_nope", "q_pe", "ckv_cache", "kpe_cache", "qo_indptr"} | PAGED, _latent, LAST,
    ),
)  # fmt: skip
OTHERS = {  # type -> why its definitions, or those of its names that are not above, are no cases here
    "rmsnorm": "the name says more than a norm of one size: other dtypes are quantised by scales that rms_norm doesn't take",
    "gemm": "the name says more than a product: quantised operands come with scales in layouts that linear doesn't take",
    "embedding": "the name says more than a look-up: quantised tables come with scales in layouts that embedding doesn't take",
    "sampling": "it draws from a stream of its own; random_sample's draw follows from seed and step",
    "moe": "routing and experts are one kernel there, over FP8 or FP4 blocks whose scales are arrays of their own; here they are ops",
    "gdn": "decay and beta are worked out inside of it, its state lies the other way round, and q is scaled; gated_delta takes them ready",
    "dsa_paged": "the chosen entries are numbers of places in the cache there, and of entries in the sequence here",
}
