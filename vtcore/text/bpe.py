"""Byte-level BPE and WordPiece vocabularies of GGUF files rebuilt on the `tokenizers` library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

from vtcore.collector import uncollected
from vtcore.errors import TokenizerError
from vtcore.text.alphabet import spell
from vtcore.text.encoder import Around, RustEncoder
from vtcore.text.pieces import Spelling, TokenPieces, byte_fallback, byte_level, respell, word_piece
from vtcore.text.splits import Splitter
from vtcore.text.spm import MARK
from vtcore.text.vocabulary import Kind, Vocabulary, add_tokens

LITERAL = (Kind.CONTROL, Kind.UNKNOWN, Kind.USER_DEFINED)


@dataclass(frozen=True)
class Casing:
    """What BERT's normalizer does to letters."""

    lowercase: bool = True
    strip_accents: bool = True


def bpe(
    vocabulary: Vocabulary, merges: Sequence[str] | None, splitter: Splitter, around: Around, *, prefixed: bool = False
) -> tuple[RustEncoder, TokenPieces]:
    """A vocabulary with merges, in the byte alphabet, or raw UTF-8 with byte fallback where the splitter says so.

    Without merges they are made from the order of the ids, as for a tiktoken vocabulary. `prefixed`: a text gets a space in front."""
    table = vocabulary.by_token()
    with uncollected():
        pairs = vocabulary.pairs(vocabulary.ids(Kind.NORMAL)) if merges is None else _pairs(merges, vocabulary.source)
        model = models.BPE(
            vocab=table if splitter.raw else _with_aliases(table, vocabulary),
            merges=pairs,
            ignore_merges=splitter.ignore_merges,
            byte_fallback=splitter.raw,
        )
    inner = tokenizers.Tokenizer(model)
    inner.pre_tokenizer = _pre_tokenizer(splitter)
    if splitter.raw:
        inner.normalizer = normalizers.Replace(" ", MARK)
    elif splitter.compose:
        inner.normalizer = normalizers.NFC()
    add_tokens(inner, vocabulary)
    spelling = Spelling((respell(MARK.encode(), b" ", vocabulary.source), byte_fallback) if splitter.raw else (byte_level,))
    control = [token for token in vocabulary.named(Kind.CONTROL).values() if token]
    encoder = RustEncoder(inner, len(vocabulary.tokens), vocabulary.source, around, control if prefixed else None)
    return encoder, TokenPieces(vocabulary.token, spelling, vocabulary.named(*LITERAL))


def _pairs(merges: Sequence[str], source: str) -> list[tuple[str, str]]:
    """`left right` split at its first space but the first character, which is part of a piece whatever it is."""
    pairs = [(merge[:at], merge[at + 1 :]) for merge in merges if (at := merge.find(" ", 1)) > 0]
    if len(pairs) < len(merges):
        wrong = next(merge for merge in merges if merge.find(" ", 1) < 0)
        raise TokenizerError(f"{source}: merge {wrong[:80]!r} is not two pieces with a space between")
    return pairs


def _with_aliases(table: dict[str, int], vocabulary: Vocabulary) -> dict[str, int]:
    """Merges may run through tokens that the file lists as they read (two spaces) and not in the byte alphabet: know those by both."""
    aliases = {spell(token.encode()): i for i, token in vocabulary.named(Kind.USER_DEFINED).items()}
    return {**aliases, **table}


def _pre_tokenizer(splitter: Splitter) -> pre_tokenizers.Sequence:
    steps: list[pre_tokenizers.PreTokenizer] = [
        pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated") for pattern in splitter.patterns
    ]
    if not splitter.raw:
        steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    return pre_tokenizers.Sequence(steps)


def bert(vocabulary: Vocabulary, casing: Casing, around: Around) -> tuple[RustEncoder, TokenPieces]:
    """WordPiece. GGUF marks the beginning of a word with U+2581 where BERT marks its continuation with ##."""
    words = [_bert_token(token, kind) for token, kind in zip(vocabulary.tokens, vocabulary.kinds, strict=True)]
    vocabulary = Vocabulary(words, vocabulary.kinds, None, vocabulary.source)
    unknown = next(iter(vocabulary.named(Kind.UNKNOWN).values()), "[UNK]")
    inner = tokenizers.Tokenizer(models.WordPiece(vocab=vocabulary.by_token(), unk_token=unknown))
    inner.normalizer = normalizers.BertNormalizer(lowercase=casing.lowercase, strip_accents=casing.strip_accents)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    add_tokens(inner, vocabulary)
    encoder = RustEncoder(inner, len(words), vocabulary.source, around)
    return encoder, TokenPieces(vocabulary.token, Spelling((word_piece(b"##", cleanup=True),)))


def _bert_token(token: str, kind: int) -> str:
    if kind != Kind.NORMAL:
        return token
    return token.removeprefix(MARK) if token.startswith(MARK) else "##" + token
