"""A pure-Python LLM inference engine: exact, and explicit about what ran where.

    from vtcore import LLM, SamplingParams
    llm = LLM("smollm2-135m")
    print(llm.chat([{"role": "user", "content": "What is the capital of France?"}], SamplingParams(temperature=0))[0].outputs[0].text)

An op works on plain arrays too: `from vtcore.ops import rms_norm`. What is heavy is imported when it is first asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from vtcore.errors import VtcoreError

if TYPE_CHECKING:
    from vtcore import ops
    from vtcore.async_engine import AsyncEngine
    from vtcore.llm import LLM
    from vtcore.outputs import CompletionOutput, Delta, Logprob, RequestOutput
    from vtcore.sampling_params import SamplingParams

    __version__: str

__all__ = [
    "LLM",
    "AsyncEngine",
    "CompletionOutput",
    "Delta",
    "Logprob",
    "RequestOutput",
    "SamplingParams",
    "VtcoreError",
    "__version__",
    "ops",
]

_WHERE = {
    "AsyncEngine": "vtcore.async_engine",
    "LLM": "vtcore.llm",
    "CompletionOutput": "vtcore.outputs",
    "Delta": "vtcore.outputs",
    "Logprob": "vtcore.outputs",
    "RequestOutput": "vtcore.outputs",
    "SamplingParams": "vtcore.sampling_params",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name == "ops":
        return importlib.import_module("vtcore.ops")
    if name not in _WHERE:
        raise AttributeError(f"module 'vtcore' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("vtcore")
    except PackageNotFoundError:  # run from its sources
        return "0"
