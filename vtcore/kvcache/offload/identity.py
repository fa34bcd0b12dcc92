"""All that a page's bits depend on: pages are shared between processes only where all of it is the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from vtcore.kvcache.cache import Cache, Paged

FORM = 1  # of the files


def digest(identity: Mapping[str, Any]) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def weights_digest(files: Iterable[Path]) -> str:
    """Of a checkpoint's content, wherever it lies: SHA-256 of every byte, so that no other weights pass for these."""
    whole = hashlib.sha256()
    for path in sorted(files, key=lambda p: p.name):
        with path.open("rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()


def layout(cache: Cache) -> list[list[Any]]:
    """Every array of a cache: its layer, group, name, shape of a page, how that lies in memory, and its dtype."""
    return [
        [*key, spec.group, name, list(array.shape[1:]), list(array.strides[1:]), str(array.dtype)]
        for key, spec in cache.specs.items()
        for name, array in cache.arrays[key].items()
    ]


def rules(cache: Cache) -> list[list[Any]]:
    """What decides which tokens a page is of."""
    return [[g, s.window, s.chunk, s.every, s.of] if isinstance(s, Paged) else [g] for g, s in cache.groups.items()]
