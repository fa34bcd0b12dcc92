"""tiktoken and tekken vocabularies: ranks of byte strings, joined by the `tiktoken` library."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tiktoken

from vtcore.errors import TokenizerError
from vtcore.formats.json_file import read_object
from vtcore.formats.metadata import Metadata
from vtcore.formats.raw import map_file
from vtcore.text.encoder import Around, check_ids, guarded
from vtcore.text.splits import GPT4O, KIMI, LLAMA3, QWEN2, TEKKEN

LARGEST = 64 << 20  # bytes of a vocabulary's file
PATTERNS = {  # by tokenizer_class, or by model_type: the files don't say
    "QWenTokenizer": QWEN2, "qwen": QWEN2, "TikTokenTokenizer": KIMI, "kimi_k2": KIMI, "kimi_k25": KIMI, "kimi_linear": KIMI,
    "llama": LLAMA3, "ChatGLM4Tokenizer": LLAMA3, "chatglm": LLAMA3, "glm4": LLAMA3, "dbrx": LLAMA3, "TiktokenTokenizerWrapper": LLAMA3,
    "gpt_oss": GPT4O,
}  # fmt: skip
TEKKEN_SPECIAL = (
    "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]",
    "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
)  # fmt: skip


class TiktokenEncoder:
    """A `tiktoken.Encoding`; also the pieces of its tokens."""

    strip = 0

    def __init__(self, ranks: dict[bytes, int], special: dict[str, int], pattern: str, source: str, around: Around) -> None:
        missing = [byte for byte in range(256) if bytes([byte]) not in ranks]
        if missing:
            raise TokenizerError(f"{source}: {len(missing)} of the 256 single bytes have no rank, the first of them {missing[0]}")
        _check_distinct(ranks, special, source)
        self.size = max([*ranks.values(), *special.values()]) + 1
        check_ids(source, self.size - 1)
        self.source, self.around = source, around
        with guarded(source, "building the tokenizer"):
            self.inner = tiktoken.Encoding(source, pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
        self._bytes = {**{rank: piece for piece, rank in ranks.items()}, **{i: name.encode() for name, i in special.items()}}

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        with guarded(self.source, "encoding a text"):
            ids = self.inner.encode(text, allowed_special="all")
        return [*self.around.before, *ids, *self.around.after] if add_special_tokens else ids

    def of(self, token_id: int, first: bool = False) -> bytes:
        return self._bytes.get(token_id, b"")


def _check_distinct(ranks: dict[bytes, int], special: dict[str, int], source: str) -> None:
    names: dict[int, bytes | str] = {}
    both: list[tuple[bytes | str, int]] = [*ranks.items(), *special.items()]
    for name, rank in both:
        if names.setdefault(rank, name) is not name:
            raise TokenizerError(f"{source}: id {rank} belongs to {names[rank]!r} and to {name!r}; an id belongs to one token")


def read_ranks(path: Path) -> dict[bytes, int]:
    """The ranks of a tiktoken file: a line for each token, its bytes in base64 and its rank."""
    data = map_file(path, TokenizerError)
    if len(data) > LARGEST:
        raise TokenizerError(f"{path} has {len(data)} bytes; at most {LARGEST} are read")
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(data.tobytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            text, rank = line.split()
            piece = base64.b64decode(text, validate=True)
            if ranks.setdefault(piece, int(rank)) != int(rank) or int(rank) < 0:
                raise ValueError("a token comes twice, or its rank is negative")
        except (ValueError, binascii.Error) as e:
            raise TokenizerError(f"{path}, line {number}: {line[:60]!r} is not a token in base64 and its rank ({e})") from e
    return ranks


def looks_like_ranks(path: Path) -> bool:
    """Whether a file, maybe called tokenizer.model, is a tiktoken vocabulary: its first line is one's."""
    line = map_file(path, TokenizerError)[:200].tobytes().split(b"\n")[0].split()
    return len(line) == 2 and line[1].isdigit()


def pattern_for(tokenizer_class: str | None, model_type: str | None, source: str) -> str:
    """The pattern that cuts a text into words. A tiktoken file has none, so it goes by who uses the file."""
    for name in (tokenizer_class, model_type):
        if name in PATTERNS:
            return PATTERNS[str(name)]
    raise TokenizerError(
        f"{source}: no pattern is known for tokenizer_class {tokenizer_class!r} and model_type {model_type!r}; known are "
        f"{', '.join(sorted(PATTERNS))}: give a tokenizer.json"
    )


class Tekken:
    """A tekken.json: special tokens have the lowest ids, then come the ranks."""

    def __init__(self, path: Path) -> None:
        self.source = str(path)
        whole = Metadata(read_object(path, TokenizerError), self.source)
        config = Metadata(self._object(whole, "config"), self.source)
        self.pattern = config.text("pattern", TEKKEN)
        n_special = config.integer("default_num_special_tokens", maximum=1 << 20)
        size = config.integer("default_vocab_size", minimum=n_special, maximum=1 << 24)
        self.special = self._special(whole, n_special)
        self.ranks = self._ranks(whole, size - n_special, n_special)

    def _object(self, whole: Metadata, key: str) -> dict[str, Any]:
        if not isinstance(whole.get(key), dict):
            raise whole.wrong(key, "an object")
        return dict(whole[key])

    def _rows(self, whole: Metadata, key: str) -> list[Mapping[str, Any]]:
        rows = whole.get(key)
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise whole.wrong(key, "a list of objects")
        return rows

    def _special(self, whole: Metadata, count: int) -> dict[str, int]:
        names = dict(enumerate(TEKKEN_SPECIAL[:count]))
        if whole.get("special_tokens"):
            rows = [Metadata(row, self.source) for row in self._rows(whole, "special_tokens")]
            names = {row.integer("rank", maximum=max(count - 1, 0)): row.text("token_str") for row in rows}
        names |= {rank: f"<SPECIAL_{rank}>" for rank in range(count) if rank not in names}
        return {name: rank for rank, name in names.items()}

    def _ranks(self, whole: Metadata, count: int, offset: int) -> dict[bytes, int]:
        ranks = {}
        for row in self._rows(whole, "vocab")[:count]:
            entry = Metadata(row, self.source)
            try:
                piece = base64.b64decode(entry.text("token_bytes"), validate=True)
            except binascii.Error as e:
                raise entry.wrong("token_bytes", "base64") from e
            ranks[piece] = entry.integer("rank", maximum=1 << 24) + offset
        return ranks
