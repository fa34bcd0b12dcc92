"""Texts of servers and prompts, as files can hold them."""

from __future__ import annotations

import re

UNWRITABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # what XML 1.0, and UTF-8, have no way to say


def cleaned(text: str) -> str:
    """With U+FFFD in the place of control characters and lone halves of surrogate pairs."""
    return UNWRITABLE.sub("\ufffd", text)
