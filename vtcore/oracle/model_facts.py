"""What a recording says of its model: the checksums of its files, and a fingerprint of its tokenizer."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from vtcore.formats.checkpoint import Checkpoint
from vtcore.oracle.recording import ModelFacts
from vtcore.text.load import end_ids
from vtcore.text.tokenizer import Tokenizer

PROBES = (
    "Hello, world! 1234567890",
    "  two  spaces\n\n\tand\r\nlines",
    "naïve Δ 漢字 🙂",
    "def f(x):\n    return x ** 2",
    "don't I'LL it's",
)
SMALL_FILES = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer.model", "tokenizer_config.json")


def model_facts(name: str, checkpoint: Checkpoint, architecture: str, vocab_size: int, tokenizer: Tokenizer | None) -> ModelFacts:
    """Read every file of the model once, for its checksum."""
    small = () if checkpoint.kind == "gguf" else (checkpoint.directory / n for n in SMALL_FILES)
    files = {p.name: _sha256(p) for p in (*checkpoint.files, *small) if p.is_file()}
    fingerprint = None if tokenizer is None else tokenizer_fingerprint(tokenizer)
    return ModelFacts(name, architecture, vocab_size, files, fingerprint, tuple(sorted(end_ids(checkpoint, tokenizer))))


def tokenizer_fingerprint(tokenizer: Tokenizer) -> str:
    """SHA-256 of what the tokenizer does: every token's bytes, and the ids of some texts. Not of its files, so GGUF and JSON agree."""
    total = hashlib.sha256()
    for i in range(tokenizer.vocab_size):
        piece = tokenizer.token_bytes(i)
        total.update(len(piece).to_bytes(4, "little") + piece)
    for text in PROBES:
        total.update(repr(tokenizer.encode(text)).encode())
    return total.hexdigest()


def pieces_of(tokenizer: Tokenizer | None, ids: Iterable[int]) -> dict[int, bytes]:
    """The bytes that each token stands for."""
    return {} if tokenizer is None else {i: tokenizer.token_bytes(i) for i in sorted(set(ids)) if i < tokenizer.vocab_size}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
