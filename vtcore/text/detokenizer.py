"""Token ids to text, as they come: never half a character, and in all the same text as a decode at once."""

from __future__ import annotations

import codecs
from collections.abc import Container

import numpy as np

from vtcore.errors import ArgumentError
from vtcore.formats.metadata import short
from vtcore.text.pieces import Pieces


def checked_id(token_id: int) -> int:
    """A token id as a Python integer; ArgumentError for what can't be one."""
    if isinstance(token_id, bool) or not isinstance(token_id, (int, np.integer)) or token_id < 0:
        raise ArgumentError(f"token id {short(token_id)} is none; ids are integers from 0 on")
    return int(token_id)


class Detokenizer:
    """Text of a growing list of ids. What `push` and `finish` return, joined, is the decode of all ids.

    A character whose last byte has not come yet is held back; where it never comes, it is one U+FFFD as soon as that is certain: before
    the next character, or at `finish`. The cost of a push doesn't grow with what came before."""

    def __init__(self, pieces: Pieces, skipped: Container[int] = ()) -> None:
        self._pieces, self._skipped = pieces, skipped
        self._reset()

    def _reset(self) -> None:
        self._first, self._strip = True, self._pieces.strip
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> str:
        """The text that is certain with this token: often all of its own, sometimes none."""
        token_id = checked_id(token_id)
        if token_id in self._skipped:
            return ""
        piece = self._pieces.of(token_id, self._first)
        self._first = False
        return self._utf8.decode(self._stripped(piece) if self._strip else piece)

    def _stripped(self, piece: bytes) -> bytes:
        rest = piece.lstrip(b" ")
        spaces = min(len(piece) - len(rest), self._strip)
        self._strip = 0 if rest else self._strip - spaces
        return piece[spaces:]

    def finish(self) -> str:
        """What is still held back: U+FFFD for a character that was cut off, else nothing. Afterwards a new text begins."""
        rest = self._utf8.decode(b"", final=True)
        self._reset()
        return rest
