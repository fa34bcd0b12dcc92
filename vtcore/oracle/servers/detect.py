"""Which kind of server an address is: by what it says of its models, else by paths that only one kind has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vtcore.errors import ArgumentError, nearest
from vtcore.oracle.followed import NotComparedError
from vtcore.oracle.servers.client import Client
from vtcore.oracle.servers.completions import VLLM, Completions, Vtcore
from vtcore.oracle.servers.dialect import Dialect
from vtcore.oracle.servers.llama_cpp import LlamaCppPython, LlamaServer
from vtcore.oracle.servers.ollama import Ollama
from vtcore.oracle.servers.sglang import SGLang

DIALECTS: Mapping[str, type[Dialect]] = {d.name: d for d in (VLLM, Vtcore, SGLang, LlamaServer, LlamaCppPython, Ollama, Completions)}
OWNERS = {"vtcore": "vtcore", "vllm": "vllm", "sglang": "sglang", "llamacpp": "llama.cpp", "me": "llama-cpp-python", "library": "ollama"}
PATHS = {"/api/version": "ollama", "/get_model_info": "sglang", "/props": "llama.cpp", "/version": "vllm"}


def detect(client: Client, kind: str | None = None, model: str | None = None) -> tuple[Dialect, str]:
    """The dialect, and how it was found out. `kind` and `model` are what the caller knows.

    Raises ArgumentError for a kind that is none, NotComparedError where the server can't be reached or has several models."""
    if kind is not None and kind not in DIALECTS:
        raise ArgumentError(f"server is {kind!r}{nearest(kind, DIALECTS)}; it must be one of {', '.join(DIALECTS)}")
    listed = client.maybe("/v1/models")
    data = listed.get("data") if isinstance(listed, dict) else None
    models = [m for m in (data if isinstance(data, list) else []) if isinstance(m, dict)]
    name = model or _only(models)
    if kind is not None:
        return DIALECTS[kind](client, name), "as told"
    owner = str(models[0].get("owned_by")) if models else ""
    if owner in OWNERS:
        return DIALECTS[OWNERS[owner]](client, name), f"its models are owned by {owner!r}"
    found = next((p for p in PATHS if isinstance(client.maybe(p), dict)), None)
    if found is not None:
        return DIALECTS[PATHS[found]](client, name), f"it answers at {found}"
    return Completions(client, name), "nothing told its kind"


def _only(models: list[dict[str, Any]]) -> str:
    names = [str(m.get("id")) for m in models]
    if len(names) > 1:
        raise NotComparedError(f"it serves {len(names)} models ({', '.join(names)[:200]}): name one with --served-model")
    return names[0] if names else "default"
