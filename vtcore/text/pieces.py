"""What the tokens of a vocabulary say: the exact bytes of each, inside a text and at its start.

All of decoding rests on this one table: a text is the bytes of its tokens one after the other, read as UTF-8. So a stream and a one-shot
decode can't differ. Where bytes are no UTF-8, each maximal bad run becomes one U+FFFD (Unicode, chapter 3.9), as in `bytes.decode`;
tokenizers' ByteFallback would turn the good neighbours of a bad byte to U+FFFD too, which no stream could foresee."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from vtcore.errors import TokenizerError
from vtcore.formats.metadata import short
from vtcore.text.alphabet import unspell
from vtcore.text.encoder import HIGHEST_ID

Step = Callable[[bytes, bool], bytes]  # a piece, whether it starts the text -> the piece
LONGEST = 4096  # bytes that replacements may make of one token
BYTE = re.compile(rb"<0x([0-9A-Fa-f]{2})>")
CLEANED = (
    (b" .", b"."), (b" ?", b"?"), (b" !", b"!"), (b" ,", b","), (b" ' ", b"'"), (b" n't", b"n't"), (b" 'm", b"'m"),
    (b" do not", b" don't"), (b" 's", b"'s"), (b" 've", b"'ve"), (b" 're", b"'re"),
)  # fmt: skip


class Pieces(Protocol):
    """The bytes of tokens."""

    strip: int  # how many spaces are taken off the start of a text

    def of(self, token_id: int, first: bool = False) -> bytes:
        """The bytes of a token inside a text, or at its start; none for an id that no token has."""


class Spelling:
    """How tokens are written in a vocabulary: the steps of a decoder, each working on one token."""

    def __init__(self, steps: tuple[Step, ...], strip: int = 0) -> None:
        self.steps, self.strip = steps, strip

    def of(self, token: str, first: bool) -> bytes:
        piece = token.encode()
        for step in self.steps:
            piece = step(piece, first)
        return piece


class TokenPieces:
    """Pieces of tokens that are known by their strings. `literal` tokens mean what they say, whatever the spelling."""

    def __init__(self, token: Callable[[int], str | None], spelling: Spelling, literal: Mapping[int, str] | None = None) -> None:
        self.token, self.spelling, self.literal, self.strip = token, spelling, literal or {}, spelling.strip
        self._known: dict[tuple[int, bool], bytes] = {}

    def of(self, token_id: int, first: bool = False) -> bytes:
        if (piece := self._known.get((token_id, first))) is None:
            piece = self._known[token_id, first] = self._spelled(token_id, first)
        return piece

    def _spelled(self, token_id: int, first: bool) -> bytes:
        if token_id in self.literal:
            return self.literal[token_id].encode()
        token = self.token(token_id) if token_id <= HIGHEST_ID else None
        return b"" if token is None else self.spelling.of(token, first)


def byte_level(piece: bytes, first: bool) -> bytes:
    """The byte alphabet; a piece with other characters stands for itself."""
    spelled = unspell(piece.decode("utf-8", "replace"))
    return piece if spelled is None else spelled


def byte_fallback(piece: bytes, first: bool) -> bytes:
    """`<0xE6>` is one byte."""
    match = BYTE.fullmatch(piece)
    return bytes.fromhex(match[1].decode()) if match else piece


def respell(old: bytes, new: bytes, source: str) -> Step:
    """One string for another, wherever it is. Raises TokenizerError for a token that becomes too long."""

    def step(piece: bytes, first: bool) -> bytes:
        length = len(piece) + piece.count(old) * (len(new) - len(old))
        if length > max(LONGEST, len(piece)):
            raise TokenizerError(f"{source}: decoder 'Replace' of {short(old)} makes {length} bytes of one token; {LONGEST} are allowed")
        return piece.replace(old, new)

    return step


def metaspace(mark: bytes, prefixed: bool) -> Step:
    """Marks are spaces; where a text was encoded with a space before it, those of the first token are none."""
    return lambda piece, first: piece.replace(mark, b"" if first and prefixed else b" ")


def word_piece(prefix: bytes, cleanup: bool) -> Step:
    """A token begins a word unless it has the prefix."""

    def step(piece: bytes, first: bool) -> bytes:
        if not first:
            piece = piece[len(prefix) :] if piece.startswith(prefix) else b" " + piece
        for old, new in CLEANED if cleanup else ():
            piece = piece.replace(old, new)
        return piece

    return step


def spaced(piece: bytes, first: bool) -> bytes:
    """Without a decoder, tokens are words."""
    return piece if first else b" " + piece


def strip(content: bytes, left: int, right: int) -> Step:
    """Take up to so many of `content` off both ends of every piece."""

    def step(piece: bytes, first: bool) -> bytes:
        most = len(piece) // len(content) if content else 0
        for _ in range(min(left, most)):
            piece = piece.removeprefix(content)
        for _ in range(min(right, most)):
            piece = piece.removesuffix(content)
        return piece

    return step


def read_spelling(decoder: Mapping[str, Any] | None, source: str) -> Spelling:
    """The spelling that the `decoder` of a tokenizer.json describes. Raises TokenizerError for a kind that isn't known."""
    if decoder is None:
        return Spelling((spaced,))
    parts = decoder.get("decoders", []) if decoder.get("type") == "Sequence" else [decoder]
    steps: list[Step] = []
    stripped, fused = 0, False
    for part in parts:
        if fused and part.get("type") == "Strip" and part.get("content") == " " and not part.get("stop"):
            stripped += int(part.get("start", 0))
        elif fused:
            raise TokenizerError(f"{source}: decoder {part.get('type')!r} after 'Fuse' is not known; only 'Strip' of leading spaces is")
        elif part.get("type") == "Fuse":
            fused = True
        else:
            steps.append(_step(part, source))
    return Spelling(tuple(steps), stripped)


def _step(part: Mapping[str, Any], source: str) -> Step:
    kind = part.get("type")
    if kind == "ByteLevel":
        return byte_level
    if kind == "ByteFallback":
        return byte_fallback
    if kind == "Replace" and "String" in part["pattern"]:
        return respell(part["pattern"]["String"].encode(), part["content"].encode(), source)
    if kind == "Metaspace":
        return metaspace(part["replacement"].encode(), part.get("prepend_scheme", "always") != "never")
    if kind == "WordPiece":
        return word_piece(part["prefix"].encode(), bool(part["cleanup"]))
    if kind == "Strip":
        return strip(part["content"].encode(), int(part["start"]), int(part["stop"]))
    known = "ByteLevel, ByteFallback, Fuse, Metaspace, Replace of a string, Sequence, Strip and WordPiece"
    raise TokenizerError(f"{source}: decoder {kind!r} is not known; {known} are")
