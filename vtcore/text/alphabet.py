"""The byte alphabet: the printable character that byte-level vocabularies write for each byte (as GPT-2 does)."""

from __future__ import annotations

from functools import cache

PRINTABLE = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))


@cache
def letters() -> tuple[str, ...]:
    """The character of each byte: itself where it can be printed, else the next free one from U+0100."""
    others = iter(range(0x100, 0x200))
    return tuple(chr(byte if byte in PRINTABLE else next(others)) for byte in range(256))


@cache
def _bytes() -> dict[str, int]:
    return {letter: byte for byte, letter in enumerate(letters())}


def spell(raw: bytes) -> str:
    """Bytes in the alphabet."""
    table = letters()
    return "".join([table[byte] for byte in raw])


def unspell(text: str) -> bytes | None:
    """The bytes that `text` spells, or None where it has a character outside the alphabet."""
    table = _bytes()
    try:
        return bytes([table[letter] for letter in text])
    except KeyError:
        return None
