"""SentencePiece models (tokenizer.model): the few fields of the protobuf message that matter, and the tokenizer they describe.

Format: sentencepiece_model.proto and the protobuf wire format."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from vtcore.errors import TokenizerError
from vtcore.text.encoder import Around, RustEncoder
from vtcore.text.growth import check_charsmap
from vtcore.text.pieces import TokenPieces
from vtcore.text.spm import Normalization, spm_bpe, spm_unigram
from vtcore.text.vocabulary import Kind, Vocabulary

Value = int | bytes
MOST_PIECES = 1 << 22
UNIGRAM, BPE = 1, 2


class SentencePieceModel(NamedTuple):
    """What a tokenizer.model holds: its pieces, how a text is normalized, and the ids of special pieces, None where there is none."""

    vocabulary: Vocabulary
    model_type: int
    normalization: Normalization
    bos: int | None
    eos: int | None
    unk: int | None
    pad: int | None


def read_fields(data: bytes, source: str) -> Iterator[tuple[int, Value]]:
    """The fields of a protobuf message in order: number and value; bytes for what has a length, integers for all else."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at, source)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(data, at, source)
            yield number, value
            continue
        if wire == 2:
            size, at = _varint(data, at, source)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise TokenizerError(
                f"{source}: wire type {wire} at byte {at} is none of a SentencePiece model's: another kind of file, or corrupt"
            )
        if size > len(data) - at:
            raise TokenizerError(
                f"{source}: field {number} at byte {at} has {size} bytes and {len(data) - at} are left: cut short or corrupt"
            )
        yield number, data[at : at + size] if wire == 2 else int.from_bytes(data[at : at + size], "little")
        at += size


def _varint(data: bytes, at: int, source: str) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value, at, shift = value | (byte & 127) << shift, at + 1, shift + 7
        if byte < 128:
            return value & ((1 << 64) - 1), at
    raise TokenizerError(f"{source}: the number at byte {at} doesn't end: cut short or corrupt")


def read_sentencepiece(data: bytes, source: str) -> SentencePieceModel:
    """A model from its bytes. Raises TokenizerError where they are no SentencePiece model, or one of a kind that isn't built."""
    pieces: list[tuple[str, float, int]] = []
    trainer: dict[int, Value] = {}
    normalizer: dict[int, Value] = {}
    for number, value in read_fields(data, source):
        if number == 1 and isinstance(value, bytes):
            pieces.append(_piece(dict(read_fields(value, source)), len(pieces), source))
        elif number in (2, 3) and isinstance(value, bytes):
            (trainer if number == 2 else normalizer).update(read_fields(value, source))
    if not pieces or len(pieces) > MOST_PIECES:
        raise TokenizerError(f"{source} is no SentencePiece model: it has {len(pieces)} pieces; 1 to {MOST_PIECES} are allowed")
    tokens, scores, kinds = map(list, zip(*pieces, strict=True))
    vocabulary = Vocabulary(tokens, kinds, scores, source)
    ids = [_id(trainer, field, default, len(pieces)) for field, default in ((41, 1), (42, 2), (40, 0), (43, -1))]
    return SentencePieceModel(vocabulary, int(trainer.get(3, UNIGRAM)), _normalization(trainer, normalizer, source), *ids)


def _piece(fields: dict[int, Value], index: int, source: str) -> tuple[str, float, int]:
    text, score, kind = fields.get(1), fields.get(2, 0), fields.get(3, Kind.NORMAL)
    if not isinstance(text, bytes) or not isinstance(score, int) or not isinstance(kind, int):
        raise TokenizerError(f"{source}: piece {index} lacks its text, or a field of it has the wrong type")
    if kind == Kind.USER_DEFINED and b" " in text:
        kind = Kind.UNUSED  # it is looked for where spaces are marks already, and never found
    try:
        return text.decode(), struct.unpack("<f", struct.pack("<I", score & 0xFFFFFFFF))[0], kind
    except UnicodeDecodeError as e:
        raise TokenizerError(f"{source}: piece {index} is not UTF-8: {e.reason}") from e


def _id(fields: dict[int, Value], number: int, default: int, count: int) -> int | None:
    """An id, stored as a 32-bit integer; negative for none."""
    value = fields.get(number, default)
    return value if isinstance(value, int) and 0 <= value < count else None


def _normalization(trainer: dict[int, Value], normalizer: dict[int, Value], source: str) -> Normalization:
    if trainer.get(24):
        raise TokenizerError(f"{source}: treat_whitespace_as_suffix is set, and such models are not built; give a tokenizer.json")
    if not normalizer.get(5, 1):
        raise TokenizerError(f"{source}: escape_whitespaces is off, and such models are not built; give a tokenizer.json")
    charsmap = normalizer.get(2, b"")
    if not isinstance(charsmap, bytes):
        raise TokenizerError(f"{source}: precompiled_charsmap is {charsmap}; bytes are needed")
    check_charsmap(charsmap, source)
    return Normalization(prefix=bool(normalizer.get(3, 1)), squeeze=bool(normalizer.get(4, 1)), charsmap=charsmap)


def build_sentencepiece(model: SentencePieceModel, around: Around) -> tuple[RustEncoder, TokenPieces]:
    """The two halves of the tokenizer."""
    if model.model_type not in (UNIGRAM, BPE):
        kind = {3: "word", 4: "char"}.get(model.model_type, str(model.model_type))
        raise TokenizerError(f"{model.vocabulary.source}: the model type is {kind}; unigram and bpe are built")
    return (spm_bpe if model.model_type == BPE else spm_unigram)(model.vocabulary, model.normalization, around)
