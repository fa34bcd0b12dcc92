"""Recordings on disk: one safetensors file, whose header says what was recorded and whose checksum covers all of it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from vtcore.errors import RecordingError
from vtcore.oracle.recording import LEAST_ALTERNATIVES, Answer, Array, ModelFacts, Recording
from vtcore.written import write

KEY, VERSION = "vtcore.recording", 1
DTYPES = {"prompt": "int32", "tokens": "int32", "top_ids": "int32", "top_logprobs": "float32", "hidden": "float32"}
HIGHEST = 2**31 - 1
ROUNDED = 1e-3  # nats that rounding may put a log probability above 0, or an equal above its equal


def write_recording(recording: Recording, path: Path) -> None:
    """Write it whole or not at all."""
    tensors, header = _tensors(recording), _header(recording)
    header["content"] = _checksum(header, tensors)
    partial = path.with_name(path.name + ".part")
    write(partial, save(tensors, metadata={KEY: json.dumps(header, sort_keys=True)}))
    os.replace(partial, path)


def read_recording(path: Path) -> Recording:
    """Read one. Raises RecordingError for what is none, is malformed, or was changed since it was written."""
    header, tensors = _read(path)
    if header.get("version") != VERSION:
        raise RecordingError(f"{path} is a recording of version {header.get('version')!r:.20}; this vtcore reads version {VERSION}")
    if header.pop("content", None) != _checksum(header, tensors):
        raise RecordingError(f"{path} was changed since it was recorded: its checksum differs; record it again")
    try:
        return _recording(header, tensors)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as wrong:
        raise RecordingError(f"{path} is malformed: {type(wrong).__name__}: {wrong}; record it again") from wrong


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    if not path.is_file():
        raise RecordingError(f"there is no recording {str(path)!r}; `vtcore oracle record MODEL --prompts FILE -o {path.name}` makes one")
    try:
        with safe_open(path, "numpy") as file:
            header = json.loads((file.metadata() or {}).get(KEY, "null"))
            tensors = {name: np.asarray(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118 - it has no iterator
    except (SafetensorError, OSError, ValueError, TypeError, RecursionError) as wrong:
        raise RecordingError(f"{path} can't be read as a recording: {wrong}") from wrong
    if not isinstance(header, dict):
        raise RecordingError(f"{path} is a safetensors file, but no recording: its header has no {KEY}")
    return header, tensors


def _checksum(header: Mapping[str, Any], tensors: Mapping[str, Array]) -> str:
    total = hashlib.sha256(json.dumps({n: v for n, v in header.items() if n != "content"}, sort_keys=True).encode())
    for name in sorted(tensors):
        total.update(f"{name} {tensors[name].dtype} {tensors[name].shape}".encode())
        total.update(np.ascontiguousarray(tensors[name]).tobytes())
    return total.hexdigest()


def _header(recording: Recording) -> dict[str, Any]:
    told = [{"name": a.name, "text": a.text, "special": a.special, "finish_reason": a.finish_reason} for a in recording.answers]
    model = {**asdict(recording.model), "files": dict(recording.model.files), "end_ids": list(recording.model.end_ids)}
    return {"version": VERSION, "model": model, "engine": dict(recording.engine), "answers": told}


def _tensors(recording: Recording) -> dict[str, Array]:
    ids = sorted(recording.pieces)
    pieces = [recording.pieces[i] for i in ids]
    tensors: dict[str, Array] = {
        "pieces.ids": np.array(ids, np.int32),
        "pieces.ends": np.cumsum([len(p) for p in pieces], dtype=np.int32),
        "pieces.bytes": np.frombuffer(b"".join(pieces), np.uint8),
    }
    for i, a in enumerate(recording.answers):
        parts = {"prompt": a.prompt_token_ids, "tokens": a.token_ids, "top_ids": a.top_ids, "top_logprobs": a.top_logprobs}
        parts |= {} if a.hidden is None else {"hidden": a.hidden}
        for name, value in parts.items():
            tensors[f"{i}.{name}"] = np.ascontiguousarray(np.asarray(value, DTYPES[name]))
    return tensors


def _recording(header: dict[str, Any], tensors: Mapping[str, Array]) -> Recording:
    facts = _facts(header["model"])
    answers = tuple(_answer(i, told, tensors, facts.vocab_size) for i, told in enumerate(header["answers"]))
    if not answers:
        raise ValueError("it holds no answers")
    return Recording(facts, {str(n): str(v) for n, v in header["engine"].items()}, answers, _pieces(tensors))


def _facts(raw: Mapping[str, Any]) -> ModelFacts:
    facts = ModelFacts(**{**raw, "end_ids": tuple(raw["end_ids"])})
    words = (facts.name, facts.architecture, *facts.files.keys(), *facts.files.values(), facts.tokenizer or "")
    if not all(isinstance(w, str) for w in words) or not all(type(i) is int for i in (facts.vocab_size, *facts.end_ids)):
        raise ValueError("its model's names must be texts, and its ids whole numbers")
    if not all(0 <= i < facts.vocab_size for i in facts.end_ids):
        raise ValueError(f"its end tokens are {facts.end_ids}; the vocabulary has {facts.vocab_size}")
    return facts


def _answer(i: int, told: Mapping[str, Any], tensors: Mapping[str, Array], vocab: int) -> Answer:
    parts = {name: tensors[f"{i}.{name}"] for name in DTYPES if name != "hidden" or f"{i}.hidden" in tensors}
    for name, value in parts.items():
        if value.dtype != DTYPES[name]:
            raise ValueError(f"{i}.{name} is {value.dtype}; it must be {DTYPES[name]}")
        if name in ("prompt", "tokens", "top_ids") and value.size and not (value.min() >= 0 and value.max() < min(vocab, HIGHEST)):
            raise ValueError(f"{i}.{name} holds ids from {value.min()} to {value.max()}; the vocabulary has {vocab}")
    prompt, tokens, top_ids, top_logprobs = (parts[n] for n in ("prompt", "tokens", "top_ids", "top_logprobs"))
    n, k = top_ids.shape
    if prompt.ndim != 1 or not prompt.size or tokens.shape != (n,) or n < 1 or k < LEAST_ALTERNATIVES or top_logprobs.shape != (n, k):
        raise ValueError(f"answer {i} has prompt {prompt.shape}, tokens {tokens.shape}, alternatives {top_ids.shape} {top_logprobs.shape}")
    if not np.isfinite(top_logprobs).all() or not np.array_equal(top_ids[:, 0], tokens):
        raise ValueError(f"answer {i}: its logprobs must be numbers, and each token the first of its alternatives")
    if (top_logprobs > ROUNDED).any() or (top_logprobs[:, 1:] > top_logprobs[:, :1] + ROUNDED).any() or _twice(top_ids):
        raise ValueError(f"answer {i}: a token's alternatives must differ from it, be no likelier, and have logprobs of 0 at most")
    hidden = parts.get("hidden")
    if hidden is not None and (hidden.ndim != 3 or hidden.shape[1] != prompt.size + n - 1):
        raise ValueError(f"{i}.hidden has shape {hidden.shape}; it must be layers, {prompt.size + n - 1} positions, width")
    if not isinstance(told["text"], str | None) or not isinstance(told["name"], str):
        raise ValueError(f"answer {i}: its name and its text must be texts")
    texts = (told["name"], told["text"], bool(told["special"]))
    return Answer(*texts, tuple(prompt.tolist()), tuple(tokens.tolist()), top_ids, top_logprobs, str(told["finish_reason"]), hidden)


def _twice(ids: Array) -> bool:
    """Whether an id comes up more than once in a row."""
    ordered = np.sort(ids, -1)
    return bool((ordered[:, 1:] == ordered[:, :-1]).any())


def _pieces(tensors: Mapping[str, Array]) -> dict[int, bytes]:
    ids, ends = tensors["pieces.ids"].tolist(), tensors["pieces.ends"].tolist()
    whole = tensors["pieces.bytes"].tobytes()
    starts = [0, *ends[:-1]]
    if len(ids) != len(ends) or (ends and ends[-1] != len(whole)) or any(a > b for a, b in zip(starts, ends, strict=True)):
        raise ValueError("the texts of its tokens don't fit together")
    return {i: whole[a:b] for i, a, b in zip(ids, starts, ends, strict=True)}
