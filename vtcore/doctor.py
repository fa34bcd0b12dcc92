"""What is here and what is not: versions, the processor, providers that work, and in words why each of the others doesn't."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from vtcore.available import available_memory
from vtcore.errors import VtcoreError
from vtcore.memory_plan import gib
from vtcore.providers import ProviderOptions, find, names

PACKAGES = (
    "vtcore",
    "numpy",
    "numba",
    "llvmlite",
    "ml_dtypes",
    "safetensors",
    "gguf",
    "jinja2",
    "tokenizers",
    "tiktoken",
    "huggingface_hub",
    "tqdm",
)
TELLING_FEATURES = (
    *("sse4.2", "avx", "avx2", "fma", "f16c", "avxvnni"),
    *("avx512f", "avx512vl", "avx512bw", "avx512vnni", "avx512bf16", "avx512fp16", "amx-tile", "amx-int8", "amx-bf16"),
    *("neon", "dotprod", "fullfp16", "bf16", "i8mm", "sve", "sve2", "sme", "v", "zvfh"),
)


@dataclass(frozen=True)
class Finding:
    """One line of the examination. `good` is None for a plain fact."""

    section: str
    name: str
    text: str
    good: bool | None = None


def examine() -> list[Finding]:
    """All findings, in the order in which they are read."""
    from vtcore.caches import cache_directory

    rows = [Finding("versions", "python", f"{platform.python_version()}, {platform.platform()}")]
    rows += [Finding("versions", name, _version(name), _installed(name)) for name in PACKAGES]
    rows += _processor()
    rows.append(_memory())
    rows.append(Finding("files", "cache", f"{cache_directory()} (VTCORE_CACHE chooses another)"))
    rows += [_provider(name) for name in names()]
    rows.append(_checks())
    return rows


def threads() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _installed(name: str) -> bool | None:
    return None if _version(name) != "not installed" else False


def _processor() -> list[Finding]:
    rows = [Finding("processor", "architecture", f"{platform.machine()}, {sys.byteorder} endian")]
    try:
        from llvmlite import binding
    except ImportError as wrong:
        return [*rows, Finding("processor", "features", f"unknown: llvmlite can't be imported: {wrong}", False)]
    try:
        on = {name for name, has in binding.get_host_cpu_features().items() if has}
    except RuntimeError as wrong:  # LLVM can't tell on this platform
        return [*rows, Finding("processor", "features", f"unknown: {wrong}", False)]
    told = " ".join(f for f in TELLING_FEATURES if f in on) or "none of those that kernels are written for"
    rows.append(Finding("processor", "model", binding.get_host_cpu_name()))
    rows.append(Finding("processor", "features", told))
    rows.append(Finding("processor", "threads", f"{threads()} for this process, of {os.cpu_count()}"))
    return rows


def _memory() -> Finding:
    free = available_memory()
    return Finding("processor", "memory", "unknown" if free is None else f"{gib(free)} that this process may still use")


def _checks() -> Finding:
    drawing = "installed" if _installed("hypothesis") is None else "pip install 'vtcore[check]'"
    text = f"`vtcore check PROVIDER` holds a provider's kernels against the definitions; --fuzz draws calls with hypothesis: {drawing}"
    return Finding("kernels", "check", text)


def _provider(name: str) -> Finding:
    try:
        provider = find(name, ProviderOptions(numerics="fast"))  # with all that it can do
    except VtcoreError as wrong:
        return Finding("providers", name, str(wrong), False)
    except Exception as wrong:  # an entry point of somebody's: whatever it raises is a finding
        return Finding("providers", name, f"it fails to load: {type(wrong).__name__}: {wrong}", False)
    facts = "; ".join(f"{key}: {value}" for key, value in provider.facts.items())
    provider.close()
    return Finding("providers", name, facts or f"{len(provider.kernels)} kernels", True)
