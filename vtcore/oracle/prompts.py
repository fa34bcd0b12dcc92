"""A file of prompts: text, a line a prompt; or JSON lines with `prompt`, `messages` or `prompt_token_ids`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vtcore.errors import ArgumentError, CheckpointError
from vtcore.formats.json_file import parse_json
from vtcore.text.tokenizer import Tokenizer

LARGEST, MOST = 16 << 20, 4096  # bytes of a file, prompts in it
SHOWN = 28  # characters of a prompt, to call it by
KEYS = ("prompt", "messages", "prompt_token_ids")


@dataclass(frozen=True)
class Prompt:
    """What is asked: a text, a conversation, or ids."""

    name: str
    value: str | Sequence[Mapping[str, Any]] | Sequence[int]

    def encode(self, tokenizer: Tokenizer | None) -> Encoded:
        """Its ids. Raises ArgumentError where it is a text and the model has no tokenizer."""
        ids = [i for i in self.value if isinstance(i, int)]
        if ids:
            return Encoded(self.name, None, False, ids)
        if tokenizer is None:
            raise ArgumentError(f"prompt {self.name} is a text, and the model has no tokenizer: give prompt_token_ids")
        if isinstance(self.value, str):
            return Encoded(self.name, self.value, True, tokenizer.encode(self.value))
        text = str(tokenizer.template().render([m for m in self.value if isinstance(m, Mapping)]))
        return Encoded(self.name, text, False, tokenizer.encode(text, add_special_tokens=False))


@dataclass(frozen=True)
class Encoded:
    """A prompt as the model sees it. text: what was tokenised, None for ids. special: with the tokenizer's own special tokens."""

    name: str
    text: str | None
    special: bool
    prompt_token_ids: list[int]


def read_prompts(path: Path, chat: bool = False) -> list[Prompt]:
    """The prompts of a file: .jsonl, or of any other name a line a prompt, without empty lines. `chat`: each text is what a user says.

    Raises ArgumentError, naming the line, for what is no prompt."""
    lines = [(n, line) for n, line in enumerate(_text(path).split("\n"), start=1) if line.strip()]
    if not 1 <= len(lines) <= MOST:
        raise ArgumentError(f"{path} holds {len(lines)} prompts; it must hold 1 to {MOST}")
    jsonl = path.suffix in (".jsonl", ".ndjson")
    asked = [(n, _asked(_value(line, f"{path}, line {n}") if jsonl else line, chat)) for n, line in lines]
    return [Prompt(f"{n} {_shown(value)}".rstrip(), value) for n, value in asked]


def _text(path: Path) -> str:
    if not path.is_file():
        raise ArgumentError(f"there is no file of prompts {str(path)!r}; give text, a line a prompt, or .jsonl with {', '.join(KEYS)}")
    if path.stat().st_size > LARGEST:
        raise ArgumentError(f"{path} has {path.stat().st_size} bytes; at most {LARGEST} are read")
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as wrong:
        raise ArgumentError(f"{path} is not UTF-8: {wrong.reason} at byte {wrong.start}") from wrong


def _shown(value: Any) -> str:
    """The first words of what is asked: of a conversation, of its last message."""
    said = value[-1]["content"] if _conversation(list(value)) else value
    text = " ".join(said.split()) if isinstance(said, str) else ""
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def _asked(value: Any, chat: bool) -> Any:
    return [{"role": "user", "content": value}] if chat and isinstance(value, str) else value


def _value(line: str, place: str) -> Any:
    try:
        raw = parse_json(line.encode(), place, CheckpointError)
    except CheckpointError as wrong:
        raise ArgumentError(str(wrong)) from wrong
    if isinstance(raw, dict):
        said = [k for k in KEYS if k in raw]
        if len(said) != 1:
            raise ArgumentError(f"{place} has {', '.join(said) or 'none'} of {', '.join(KEYS)}; it must have one of them")
        raw = raw[said[0]]
    if isinstance(raw, str) and raw:
        return raw
    if isinstance(raw, list) and raw and (_conversation(raw) or all(type(i) is int and i >= 0 for i in raw)):
        return raw
    raise ArgumentError(f"{place} holds {raw!r:.60}; a prompt is a text, a list of messages with role and content, or a list of token ids")


def _conversation(raw: list[Any]) -> bool:
    return all(isinstance(m, dict) and isinstance(m.get("role"), str) and "content" in m for m in raw)
