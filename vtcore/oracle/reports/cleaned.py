"""Texts of servers and prompts, as files can hold them."""

from __future__ import annotations

import re

UNWRITABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # what XML 1.0, and UTF-8, have no way to say

CONTROLS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)  # what a terminal obeys, or can't show


def shown(text: str) -> str:
    """One line for a terminal: what a server or a prompt says can't move its cursor, begin lines or turn their direction."""
    return CONTROLS.sub("\ufffd", text)


def cleaned(text: str) -> str:
    """With U+FFFD in the place of control characters and lone halves of surrogate pairs."""
    return UNWRITABLE.sub("\ufffd", text)
