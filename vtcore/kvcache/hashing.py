"""How a block's content becomes a key: a hash of the key before it, its tokens, and whatever else its keys and values depend on."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from array import array
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from vtcore.errors import ArgumentError, nearest

Extras = tuple[tuple[Any, ...], ...] | None
Digest = Callable[[bytes], bytes]
SEED = "vllm-none-hash"  # of the key before the first block: the one that other engines start their chains from
EXTRA = "hashing"


class Hasher:
    """One algorithm, by vLLM's name. sha256 and xxhash read the integers as they lie in memory; the cbor forms are those of other
    languages too, and equal vLLM's. xxhash is no cryptographic hash, so its chains start from random bytes unless PYTHONHASHSEED is set:
    who can't know them can't make two prompts collide."""

    def __init__(self, algorithm: str = "sha256") -> None:
        if algorithm not in ALGORITHMS:
            hint = nearest(algorithm, ALGORITHMS)
            raise ArgumentError(f"prefix_caching_hash_algo is {algorithm!r:.80}{hint}; it must be one of {', '.join(ALGORITHMS)}")
        self.algorithm = algorithm
        self._digest: Digest = _sha256 if algorithm.startswith("sha256") else _library("xxhash", algorithm).xxh3_128_digest
        self._cbor = _library("cbor2", algorithm).dumps if algorithm.endswith("cbor") else None
        self.first = self._start()

    def __call__(self, before: bytes, tokens: Sequence[int], extras: Extras = None) -> bytes:
        """The key of a block after the one whose key is `before`."""
        if self._cbor is not None:
            return self._digest(self._cbor((before, tuple(tokens), extras), canonical=True))
        more = b"" if extras is None else json.dumps(extras).encode()
        return self._digest(before + struct.pack("<q", len(tokens)) + array("q", tokens).tobytes() + more)

    def _start(self) -> bytes:
        seed = os.environ.get("PYTHONHASHSEED")
        if seed is None and self.algorithm.startswith("xxhash"):
            return os.urandom(32)
        text = seed or SEED
        return self._digest(text.encode() if self._cbor is None else self._cbor(text, canonical=True))


def seeded() -> bool:
    """Whether all processes start their chains from the same bytes, whatever the algorithm."""
    return os.environ.get("PYTHONHASHSEED") is not None


ALGORITHMS = ("sha256", "sha256_cbor", "xxhash", "xxhash_cbor")


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _library(name: str, algorithm: str) -> Any:
    try:
        return import_module(name)
    except ImportError as missing:
        raise ArgumentError(
            f"prefix_caching_hash_algo {algorithm!r} needs the package {name}: pip install 'vtcore[{EXTRA}]', or choose sha256"
        ) from missing
