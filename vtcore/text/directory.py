"""The tokenizer in a model's directory: a tokenizer.json, else a tekken.json, a tiktoken file, or a SentencePiece model."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tokenizers

from vtcore.errors import TokenizerError
from vtcore.formats.raw import map_file
from vtcore.text.encoder import HIGHEST_ID, Around, Encoder, RustEncoder, check_ids, guarded
from vtcore.text.growth import check_charsmaps, check_growth
from vtcore.text.pieces import Pieces, TokenPieces, byte_level, read_spelling
from vtcore.text.sentencepiece import BPE, SentencePieceModel, build_sentencepiece, read_sentencepiece
from vtcore.text.settings import Settings
from vtcore.text.tiktoken_files import Tekken, TiktokenEncoder, looks_like_ranks, pattern_for, read_ranks
from vtcore.text.tokenizer import Special, Tokenizer
from vtcore.text.vocabulary import Kind, Vocabulary

LARGEST = 256 << 20  # bytes of a tokenizer.json or a SentencePiece model
FILES = "tokenizer.json, tekken.json, *.tiktoken, tiktoken.model, tokenizer.model, spiece.model"
QWEN_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", *(f"<|extra_{i}|>" for i in range(205)))


@dataclass(frozen=True)
class Read:
    """A vocabulary that was read: the two halves of its tokenizer, the ids that decoding skips, and how to find the id of a token."""

    encoder: Encoder
    pieces: Pieces
    special: frozenset[int]
    id_of: Callable[[str], int | None]


def directory_tokenizer(directory: Path, config: Mapping[str, Any], generation_config: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer of a directory. Raises TokenizerError, or ConfigError, by file and key."""
    settings = Settings(directory, config, generation_config)
    read = _read(directory, settings)
    named = {role: i for role, name in settings.names.items() if (i := read.id_of(name)) is not None}
    if not settings.names:
        named = {role: i for role in ("bos_token", "eos_token") if (i := settings.id_of(role)) is not None}
        settings.names = {role: read.pieces.of(i).decode("utf-8", "replace") for role, i in named.items()}
    ends = settings.ends | {i for role, i in named.items() if role == "eos_token"}
    special = Special(settings.names, read.special | frozenset(named.values()), named.get("bos_token"), ends)
    return Tokenizer(read.encoder, read.pieces, special, settings.templates)


def _read(directory: Path, settings: Settings) -> Read:
    if (path := directory / "tokenizer.json").exists():
        return _rust(path, settings)
    if (path := directory / "tekken.json").exists():
        return _tekken(path, settings)
    for path in (
        *sorted(directory.glob("*.tiktoken")),
        *(directory / name for name in ("tiktoken.model", "tokenizer.model", "spiece.model")),
    ):
        if path.exists():
            return (_tiktoken if path.suffix == ".tiktoken" or looks_like_ranks(path) else _sentencepiece)(path, settings)
    raise TokenizerError(f"{directory} holds no tokenizer: looked for {FILES}")


def _whole(path: Path) -> bytes:
    data = map_file(path, TokenizerError)
    if len(data) > LARGEST:
        raise TokenizerError(f"{path} has {len(data)} bytes; at most {LARGEST} are read")
    return data.tobytes()


def _around(settings: Settings, find: Callable[[str], int | None], bos: bool, eos: bool) -> Around:
    """The ids to put around a prompt: as the settings say, else as given."""

    def ids(role: str, wanted: bool) -> list[int]:
        found = find(settings.names[role]) if wanted and role in settings.names else None
        return [] if found is None else [found]

    bos, eos = bos if settings.add_bos is None else settings.add_bos, eos if settings.add_eos is None else settings.add_eos
    return Around(ids("bos_token", bos), ids("eos_token", eos))


def _rust(path: Path, settings: Settings) -> Read:
    with guarded(str(path), "reading the tokenizer"):
        inner = _library(_whole(path), str(path))
        size = max(inner.get_vocab(with_added_tokens=True).values(), default=-1) + 1
        check_ids(str(path), size - 1)
        _check_processor(inner, size, str(path))
        _mark_special(inner, settings)
        added = inner.get_added_tokens_decoder()
        spelling = read_spelling(None if inner.decoder is None else json.loads(inner.decoder.__getstate__()), str(path))
    if not size:
        raise TokenizerError(f"{path} holds no tokens")
    said = settings.add_bos is not None or settings.add_eos is not None
    around = _around(settings, inner.token_to_id, False, False) if said else None
    literal = {i: token.content for i, token in added.items()} if byte_level in spelling.steps else {}
    special = frozenset(i for i, token in added.items() if token.special)
    return Read(RustEncoder(inner, size, str(path), around), TokenPieces(inner.id_to_token, spelling, literal), special, inner.token_to_id)


def _library(raw: bytes, source: str) -> tokenizers.Tokenizer:
    """The library's tokenizer, without what is for training, or depends on other texts: padding, truncation, dropout."""
    check_charsmaps(raw, source)
    inner = tokenizers.Tokenizer.from_buffer(raw)
    inner.no_truncation()
    inner.no_padding()
    check_growth(inner, source)
    if getattr(inner.model, "dropout", None):
        inner.model.dropout = None
    return inner


def _check_processor(inner: tokenizers.Tokenizer, size: int, source: str) -> None:
    """Around an empty text a post-processor shows all ids that it adds, and whether it lacks any."""
    if unknown := [i for i in inner.encode("").ids if i >= size]:
        raise TokenizerError(f"{source}: 'post_processor' adds token id {unknown[0]}, and the vocabulary ends at {size - 1}")


def _mark_special(inner: tokenizers.Tokenizer, settings: Settings) -> None:
    """Tokens that only the settings call special are matched as wholes too, if the vocabulary has them: the model knows no others."""
    known = {token.content for token in inner.get_added_tokens_decoder().values()}
    names = [name for name in settings.names.values() if name not in known and inner.token_to_id(name) is not None]
    inner.add_special_tokens([tokenizers.AddedToken(name, special=True, normalized=False) for name in dict.fromkeys(names)])


def _tekken(path: Path, settings: Settings) -> Read:
    tekken = Tekken(path)
    settings.names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", **settings.names}
    find = tekken.special.get
    encoder = TiktokenEncoder(tekken.ranks, tekken.special, tekken.pattern, str(path), _around(settings, find, True, False))
    return Read(encoder, encoder, frozenset(tekken.special.values()), find)


def _tiktoken(path: Path, settings: Settings) -> Read:
    ranks = read_ranks(path)
    pattern = pattern_for(settings.tokenizer_class, settings.model_type, str(path))
    special = {token.content: i for i, token in settings.added.items()}
    if not special and "qwen" in (settings.model_type, (settings.tokenizer_class or "").removesuffix("Tokenizer").lower()):
        special = {name: len(ranks) + i for i, name in enumerate(QWEN_SPECIAL)}
        settings.names = {"eos_token": "<|endoftext|>", **settings.names}
    around = _around(settings, special.get, False, False)
    encoder = TiktokenEncoder(ranks, special, pattern, str(path), around)
    skipped = frozenset(i for i in special.values() if i not in settings.added or settings.added[i].special)
    return Read(encoder, encoder, skipped, special.get)


def _sentencepiece(path: Path, settings: Settings) -> Read:
    model = read_sentencepiece(_whole(path), str(path))
    vocabulary = _extended(model.vocabulary, settings)
    model = model._replace(vocabulary=vocabulary)
    roles = (("bos_token", model.bos), ("eos_token", model.eos), ("unk_token", model.unk), ("pad_token", model.pad))
    settings.names = {**{role: vocabulary.tokens[i] for role, i in roles if i is not None}, **settings.names}
    find = vocabulary.by_token().get
    encoder, pieces = _guarded_build(model, _around(settings, find, model.model_type == BPE, model.model_type != BPE))
    return Read(encoder, pieces, frozenset(vocabulary.ids(Kind.CONTROL, Kind.UNKNOWN)), find)


def _guarded_build(model: SentencePieceModel, around: Around) -> tuple[RustEncoder, TokenPieces]:
    with guarded(model.vocabulary.source, "building the tokenizer"):
        return build_sentencepiece(model, around)


def _extended(vocabulary: Vocabulary, settings: Settings) -> Vocabulary:
    """With the tokens that tokenizer_config.json adds behind the model's own; ids that it leaves out are unused."""
    tokens, kinds, scores = list(vocabulary.tokens), list(vocabulary.kinds), list(vocabulary.scores or [])
    for i in range(len(tokens), min(max(settings.added, default=-1), HIGHEST_ID) + 1):
        added = settings.added.get(i)
        tokens.append(added.content if added else f"[UNUSED_{i}]")
        kinds.append((Kind.CONTROL if added.special else Kind.USER_DEFINED) if added else Kind.UNUSED)
        scores.append(0.0)
    return replace(vocabulary, tokens=tokens, kinds=kinds, scores=scores)
