"""Keys and values in 8 bits, by vLLM's names of `kv_cache_dtype`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vtcore.errors import ArgumentError
from vtcore.kvcache.cache import Key, Paged, Spec

DTYPES = {  # name -> dtype of the pages; none: that of all others
    "auto": "",
    "fp8": "float8_e4m3fn",
    "fp8_e4m3": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2",
    "int8_per_token_head": "int8",
}


def check(name: str) -> None:
    """Raises ArgumentError for a name that there isn't."""
    if name not in tuple(DTYPES):
        raise ArgumentError(f"kv_cache_dtype is {name!r:.80}; choose one of {', '.join(DTYPES)}")


def scales_count(name: str) -> bool:
    """Whether what is kept are 8-bit floats, which have a scale a layer."""
    check(name)
    return DTYPES[name].startswith("float8")


def coded(specs: Mapping[Key, Spec], name: str) -> dict[Key, Spec]:
    """The caches of a model whose keys and values are kept as a name says: those of heads, since only paged_attention reads 8 bits.

    Raises ArgumentError where a model keeps none."""
    check(name)
    if DTYPES[name] and not any(_of_heads(spec) for spec in specs.values()):
        kept = ", ".join(sorted({array for spec in specs.values() for array in spec.shapes}))
        raise ArgumentError(
            f"kv_cache_dtype is {name!r} and has no effect: 8 bits are for keys and values of heads, and this model keeps {kept}; "
            "leave it auto"
        )
    return {key: _with(spec, DTYPES[name]) for key, spec in specs.items()}


def uncoded(spec: Spec) -> Spec:
    """A cache as its layer declared it."""
    return _with(spec, "")


def _with(spec: Spec, code: str) -> Spec:
    return replace(spec, code=code) if isinstance(spec, Paged) and spec.heads else spec


def _of_heads(spec: Spec) -> bool:
    return isinstance(spec, Paged) and spec.heads
