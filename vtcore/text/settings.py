"""What the JSON files of a model's directory say about its special tokens and chat templates, apart from the vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from vtcore.errors import TokenizerError
from vtcore.formats.json_file import read_object
from vtcore.formats.metadata import Metadata, short
from vtcore.formats.raw import map_file
from vtcore.text.encoder import HIGHEST_ID

ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
LARGEST_TEMPLATE = 1 << 20  # bytes; whether it is used or not


class Added(NamedTuple):
    """A token that stands in tokenizer_config.json beside the vocabulary."""

    content: str
    special: bool


class Settings:
    """The settings of one directory. Reading them raises ConfigError or TokenizerError for values of the wrong type, by file and key.

    names: special tokens by role. added: tokens by id. add_bos, add_eos: None where the files don't say. ends: the ids that end an answer,
    as generation_config.json, or else config.json, names them. templates: chat templates by name."""

    def __init__(self, directory: Path, config: Mapping[str, Any], generation_config: Mapping[str, Any]) -> None:
        self.directory = directory
        self.stored = self._read("tokenizer_config.json")
        self.names = {**self._names(self._read("special_tokens_map.json")), **self._names(self.stored)}
        self.added = self._added()
        self.add_bos: bool | None = self._flag("add_bos_token")
        self.add_eos: bool | None = self._flag("add_eos_token")
        self.tokenizer_class: str | None = self._text(self.stored, "tokenizer_class")
        self.config = Metadata(config, str(directory / "config.json"))
        self.model_type: str | None = self._text(self.config, "model_type")
        generation = Metadata(generation_config, str(directory / "generation_config.json"))
        self.ends = self._ids(generation, "eos_token_id") or self._ids(self.config, "eos_token_id")
        self.templates = self._templates()

    def _read(self, name: str) -> Metadata:
        path = self.directory / name
        return Metadata(read_object(path, TokenizerError) if path.exists() else {}, str(path))

    def _flag(self, key: str) -> bool | None:
        return None if self.stored.get(key) is None else self.stored.boolean(key)

    def _text(self, where: Metadata, key: str) -> str | None:
        return None if where.get(key) is None else where.text(key)

    def _names(self, where: Metadata) -> dict[str, str]:
        return {role: _content(where, role, where[role]) for role in ROLES if where.get(role) is not None}

    def _added(self) -> dict[int, Added]:
        rows = self.stored.get("added_tokens_decoder") or {}
        if not isinstance(rows, dict) or not all(key.isdecimal() and len(key) < 9 and int(key) <= HIGHEST_ID for key in rows):
            raise self.stored.wrong("added_tokens_decoder", f"an object of tokens by id, up to {HIGHEST_ID},")
        return {int(key): self._added_token(f"added_tokens_decoder.{key}", row) for key, row in rows.items()}

    def _added_token(self, key: str, row: Any) -> Added:
        special = row.get("special", True) if isinstance(row, dict) else True
        if not isinstance(special, bool):
            raise TokenizerError(f"{self.stored.source}: 'special' of {key!r} is {short(special)}; a boolean is needed")
        return Added(_content(self.stored, key, row), special)

    def _ids(self, where: Metadata, key: str) -> frozenset[int]:
        """An id, a list of them, or none."""
        value = where.get(key)
        if value is None:
            return frozenset()
        ids = where.integers(key) if isinstance(value, list) else [where.integer(key)]
        if not all(0 <= i <= HIGHEST_ID for i in ids):
            raise where.wrong(key, f"an id from 0 to {HIGHEST_ID}, or a list of them,")
        return frozenset(ids)

    def id_of(self, role: str) -> int | None:
        """The id of a special token as config.json has it: for directories without any tokenizer_config.json."""
        ids = self._ids(self.config, role + "_id")
        return min(ids) if ids else None

    def _templates(self) -> dict[str, str]:
        """Of tokenizer_config.json, replaced by those that stand in files of their own."""
        stored, processor = self.stored, self._read("chat_template.json")
        templates = self._listed(stored) if isinstance(stored.get("chat_template"), list) else {}
        for where in (stored, processor):
            if isinstance(where.get("chat_template"), str):
                templates["default"] = where["chat_template"]
        for path in sorted((self.directory / "additional_chat_templates").glob("*.jinja")):
            templates[path.stem] = _read_template(path)
        single = self.directory / "chat_template.jinja"
        return {**templates, "default": _read_template(single)} if single.exists() else templates

    def _listed(self, where: Metadata) -> dict[str, str]:
        given = where["chat_template"]
        if not all(isinstance(row, dict) for row in given):
            raise where.wrong("chat_template", "a string, or a list of objects with 'name' and 'template',")
        rows = [Metadata(row, f"{where.source}: chat_template") for row in given]
        return {row.text("name"): row.text("template") for row in rows}


def _content(where: Metadata, key: str, value: Any) -> str:
    """A token is its string, or an object that holds it."""
    content = value.get("content") if isinstance(value, dict) else value
    if not isinstance(content, str):
        raise TokenizerError(f"{where.source}: {key!r} is {str(value)[:80]}; a string, or an object with a 'content' string is needed")
    return content


def _read_template(path: Path) -> str:
    data = map_file(path, TokenizerError)
    if len(data) > LARGEST_TEMPLATE:
        raise TokenizerError(f"{path} has {len(data)} bytes; a chat template has at most {LARGEST_TEMPLATE}")
    try:
        return data.tobytes().decode()
    except UnicodeDecodeError as e:
        raise TokenizerError(f"{path} is not UTF-8: {e.reason} at byte {e.start}") from e
