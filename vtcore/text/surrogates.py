"""Python strings may hold halves of UTF-16 surrogate pairs, for example from JSON; UTF-8 has none."""

from __future__ import annotations


def joined(text: str) -> str:
    """The text with pairs joined to the character they stand for, and every lone half replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
