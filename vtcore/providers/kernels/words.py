"""A body's text as words: numbers, names and signs, with the line of each."""

from __future__ import annotations

import re
from typing import NamedTuple

from vtcore.errors import ProviderError

WORDS = re.compile(
    r"(?P<space>\s+|//[^\n]*|/\*.*?\*/)"
    r"|(?P<number>(?:\d|\.\d)(?:[eE][-+]|[\w.])*)"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign><<=|>>=|&&|\|\||<<|>>|\+\+|--|[-+*/%&|^<>=!]=|[-+*/%&|^~!<>=?:;,(){}\[\]])",
    re.DOTALL,
)


class BrokenRuleError(ProviderError):
    """A body breaks a rule of the dialect: which, and on which line."""

    def __init__(self, line: int, rule: str) -> None:
        super().__init__(rule)
        self.line = line


class Word(NamedTuple):
    """`kind`: number, name, sign, or end, which stands behind the last. `at`: where in the text it begins."""

    text: str
    kind: str
    line: int
    at: int


def words(text: str) -> list[Word]:
    """All of a text but spaces and comments. BrokenRuleError for a character that begins nothing."""
    found, at, line = list[Word](), 0, 1
    while at < len(text):
        match = WORDS.match(text, at)
        if match is None:
            raise BrokenRuleError(line, f"{text[at]!r} begins no word of the dialect")
        if match.lastgroup != "space":
            found.append(Word(match[0], str(match.lastgroup), line, at))
        at, line = match.end(), line + match[0].count("\n")
    return [*found, Word("the end", "end", line, at)]
