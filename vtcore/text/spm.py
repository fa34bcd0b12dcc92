"""SentencePiece vocabularies rebuilt on the `tokenizers` library: BPE by scores, and Unigram.

SentencePiece joins the neighbours whose joined piece has the best score. The library joins by a list of pairs, so the list is made: every
way of cutting a piece in two pieces, best score first. The two differ only where two cuts of one piece overlap in a text, as `a|aa|a` for
`aaa`: SentencePiece takes the left one, the list the one with the longer left part (as transformers does).

User-defined tokens are matched before anything else, the longest first, and never joined to their neighbours. A text gets its space in
front only where it truly starts: after a special token there is none (GGUF's architecture `phi3` excepted: its models want one).
Literal `<0xEA>` in a text is six characters, never the byte. Source: Kudo & Richardson 2018, and sentencepiece's bpe_model.cc."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

from vtcore.collector import uncollected
from vtcore.errors import TokenizerError
from vtcore.text.encoder import Around, RustEncoder
from vtcore.text.pieces import Spelling, TokenPieces, byte_fallback, respell
from vtcore.text.vocabulary import Kind, Vocabulary, add_tokens

MARK = "\u2581"


@dataclass(frozen=True)
class Normalization:
    """What is done to a text before it is cut.

    prefix: a space is put in front; squeeze: runs of spaces become one, none stays at the end; charsmap: SentencePiece's precompiled map of
    characters; each: the space goes in front of every stretch between special tokens; strip_right: special tokens swallow the white space
    behind them."""

    prefix: bool = True
    squeeze: bool = False
    charsmap: bytes = b""
    each: bool = False
    strip_right: bool = False


def spm_bpe(vocabulary: Vocabulary, normalization: Normalization, around: Around) -> tuple[RustEncoder, TokenPieces]:
    """BPE by scores, with byte fallback where the vocabulary has byte tokens."""
    with uncollected():
        model = models.BPE(
            vocab=vocabulary.by_token(),
            merges=merges_by_score(vocabulary),
            unk_token=_unknown(vocabulary),
            fuse_unk=True,
            byte_fallback=bool(vocabulary.ids(Kind.BYTE)),
        )
    return _built(model, vocabulary, normalization, around)


def spm_unigram(vocabulary: Vocabulary, normalization: Normalization, around: Around) -> tuple[RustEncoder, TokenPieces]:
    """The most likely cut, by the pieces' log-probabilities."""
    vocabulary.by_token()
    unknown = vocabulary.ids(Kind.UNKNOWN)
    model = models.Unigram(
        list(zip(vocabulary.tokens, _scores(vocabulary), strict=True)),
        unk_id=unknown[0] if unknown else None,
        byte_fallback=bool(vocabulary.ids(Kind.BYTE)),
    )
    return _built(model, vocabulary, normalization, around)


def marked(vocabulary: Vocabulary) -> Vocabulary:
    """User-defined tokens with the mark for a space, as SentencePiece has them; GGUF writes them as they read."""
    taken, tokens = set(vocabulary.tokens), list(vocabulary.tokens)
    for i in vocabulary.ids(Kind.USER_DEFINED):
        if (marked := tokens[i].replace(" ", MARK)) not in taken:
            tokens[i] = marked
    return replace(vocabulary, tokens=tokens)


def merges_by_score(vocabulary: Vocabulary) -> list[tuple[str, str]]:
    """All pairs of normal pieces whose joined piece is normal too, the best score first; of one piece's, the longest left part first."""
    scores = _scores(vocabulary)
    return vocabulary.pairs(sorted(vocabulary.ids(Kind.NORMAL), key=lambda i: -scores[i]))


def _scores(vocabulary: Vocabulary) -> Any:
    if vocabulary.scores is None:
        raise TokenizerError(f"{vocabulary.source}: the tokens of a SentencePiece vocabulary have scores; this one's have none")
    return vocabulary.scores


def _unknown(vocabulary: Vocabulary) -> str | None:
    return next(iter(vocabulary.named(Kind.UNKNOWN).values()), None)


def _built(
    model: models.BPE | models.Unigram, vocabulary: Vocabulary, how: Normalization, around: Around
) -> tuple[RustEncoder, TokenPieces]:
    inner = tokenizers.Tokenizer(model)
    inner.normalizer = _normalizer(how)
    if isinstance(model, models.Unigram):  # would take the name of a byte, spelled out in a text, for its token
        inner.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(r"(?<=<)(?=0x[0-9A-F]{2}>)"), "isolated")
    add_tokens(inner, vocabulary, strip_right=how.strip_right, normalized=not how.each)
    control = [token for token in vocabulary.named(Kind.CONTROL, Kind.UNKNOWN).values() if token]
    prefixed = control if how.prefix and not how.each else None
    spelling = Spelling((respell(MARK.encode(), b" ", vocabulary.source), byte_fallback), strip=int(how.prefix))
    literal = vocabulary.named(Kind.CONTROL, Kind.UNKNOWN)
    encoder = RustEncoder(inner, len(vocabulary.tokens), vocabulary.source, around, prefixed)
    return encoder, TokenPieces(vocabulary.token, spelling, literal)


def _normalizer(how: Normalization) -> normalizers.Sequence:
    steps: list[normalizers.Normalizer] = [normalizers.Precompiled(how.charsmap)] if how.charsmap else []
    if how.squeeze:
        ends = rf"[ {MARK}]+\z" if how.prefix else rf"\A +|[ {MARK}]+\z"
        steps += [normalizers.Replace(tokenizers.Regex(ends), ""), normalizers.Replace(tokenizers.Regex(" {2,}"), " ")]
    if how.each and how.prefix:
        steps.append(normalizers.Prepend(MARK))
    return normalizers.Sequence([*steps, normalizers.Replace(" ", MARK)])
