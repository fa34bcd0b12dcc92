"""Small tokenizers to test with: the byte tokenizer as a tokenizer.json, and vocabularies as GGUF metadata."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from vtcore.text import Tokenizer, load_tokenizer
from vtcore.text.alphabet import letters

GGML = "tokenizer.ggml."
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
MARK = "\u2581"


def added(token_id: int, content: str, **flags: bool) -> dict[str, Any]:
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    return {"id": token_id, "content": content, **plain, **flags}


def byte_json(*tokens: dict[str, Any], **parts: Any) -> dict[str, Any]:
    """A byte-level tokenizer.json: 256 byte tokens, no merges, and added tokens."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": list(tokens),
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": {letter: byte for byte, letter in enumerate(letters())}, "merges": []},
        **parts,
    }


def bos_processor(token: str, token_id: int) -> dict[str, Any]:
    """A post-processor that puts one token in front."""
    sequence = {"Sequence": {"id": "A", "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": token, "type_id": 0}}, sequence],
        "pair": [sequence],
        "special_tokens": {token: {"id": token, "ids": [token_id], "tokens": [token]}},
    }


def checkpoint(directory: Path, config: Any = None, generation_config: Any = None) -> SimpleNamespace:
    return SimpleNamespace(
        path=directory, kind="safetensors", directory=directory, config=config or {}, generation_config=generation_config or {}, metadata={}
    )


def from_json(directory: Path, tokenizer: Any, config: Any = None, generation_config: Any = None, **files: Any) -> Tokenizer:
    """The tokenizer of a directory with a tokenizer.json, and other JSON files by their stems."""
    for stem, value in {"tokenizer": tokenizer, **files}.items():
        (directory / f"{stem}.json").write_text(json.dumps(value))
    return load_tokenizer(checkpoint(directory, config, generation_config))


def from_metadata(metadata: dict[str, Any]) -> Tokenizer:
    """The tokenizer that GGUF metadata describe."""
    path = Path("model.gguf")
    return load_tokenizer(SimpleNamespace(path=path, kind="gguf", directory=path, config={}, generation_config={}, metadata=metadata))


def spm_metadata(pieces: dict[str, float], extra: dict[str, int] | None = None, **keys: Any) -> dict[str, Any]:
    """A SentencePiece vocabulary: <unk> <s> </s>, the 256 bytes, tokens of other kinds, and pieces with their scores."""
    special = {"<unk>": UNKNOWN, "<s>": CONTROL, "</s>": CONTROL, **{f"<0x{b:02X}>": BYTE for b in range(256)}, **(extra or {})}
    return {
        GGML + "model": "llama",
        GGML + "tokens": [*special, *pieces],
        GGML + "token_type": [*special.values(), *[NORMAL] * len(pieces)],
        GGML + "scores": [*[0.0] * len(special), *pieces.values()],
        GGML + "bos_token_id": 1,
        GGML + "eos_token_id": 2,
        GGML + "unknown_token_id": 0,
        **{GGML + key: value for key, value in keys.items()},
    }


def bpe_metadata(merges: list[str], extra: dict[str, int] | None = None, **keys: Any) -> dict[str, Any]:
    """A byte-level vocabulary: the 256 bytes, what merges make, and tokens of other kinds."""
    tokens = dict.fromkeys([*letters(), *("".join(m.split(" ")) for m in merges)], NORMAL) | (extra or {})
    return {
        GGML + "model": "gpt2",
        GGML + "pre": "gpt-2",
        GGML + "tokens": list(tokens),
        GGML + "token_type": list(tokens.values()),
        GGML + "merges": merges,
        **{GGML + key: value for key, value in keys.items()},
    }


def pieces_of(tokenizer: Tokenizer, text: str) -> list[bytes]:
    """The bytes of each token of a text."""
    return [tokenizer.token_bytes(i) for i in tokenizer.encode(text, add_special_tokens=False)]
