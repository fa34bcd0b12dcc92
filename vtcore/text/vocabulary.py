"""A vocabulary as GGUF files and SentencePiece models hold it: a list of tokens with kinds and scores."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import tokenizers

from vtcore.errors import TokenizerError

LONGEST_PIECE, MOST_CHARACTERS = 1024, 1 << 25  # where pairs are made of every cut of every piece
BYTE_NAME = re.compile(r"<0x[0-9A-F]{2}>")


class Kind(IntEnum):
    """Kinds of tokens, numbered as in SentencePiece and GGUF."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class Vocabulary:
    """Tokens by id, the kind of each, and the score of each where there are scores. `source` names the file in errors."""

    tokens: Sequence[str]
    kinds: Sequence[int]
    scores: Sequence[float] | None
    source: str

    def __post_init__(self) -> None:
        for name, values in (("kinds", self.kinds), ("scores", self.scores)):
            if values is not None and len(values) != len(self.tokens):
                raise TokenizerError(f"{self.source}: {len(self.tokens)} tokens have {len(values)} {name}; each has one")

    @cached_property
    def _by_kind(self) -> dict[int, list[int]]:
        groups: dict[int, list[int]] = {}
        for i, kind in enumerate(self.kinds):
            groups.setdefault(kind, []).append(i)
        return groups

    def ids(self, *kinds: Kind) -> list[int]:
        """The ids of all tokens of some kinds, ascending."""
        return sorted(i for kind in kinds for i in self._by_kind.get(kind, ()))

    def named(self, *kinds: Kind) -> dict[int, str]:
        """The tokens of some kinds by id."""
        return {i: self.tokens[i] for i in self.ids(*kinds)}

    def pairs(self, order: Sequence[int]) -> list[tuple[str, str]]:
        """All pairs of some tokens whose joined token is one of them too: those of the first token first, the longest left part first.

        Raises TokenizerError where a token is so long, or all together, that this would take forever."""
        pieces = [self.tokens[i] for i in order]
        longest, total = max(map(len, pieces), default=0), sum(map(len, pieces))
        if longest > LONGEST_PIECE or total > MOST_CHARACTERS:
            bounds = f"up to {LONGEST_PIECE}, and {MOST_CHARACTERS} in all, are allowed"
            raise TokenizerError(f"{self.source}: the longest token has {longest} characters, all have {total}; {bounds}")
        known = set(pieces)
        return [(p[:k], p[k:]) for p in pieces for k in range(len(p) - 1, 0, -1) if p[:k] in known and p[k:] in known]

    def by_token(self) -> dict[str, int]:
        """Ids by token. Raises TokenizerError for a token that comes twice."""
        table = {token: i for i, token in enumerate(self.tokens)}
        if len(table) != len(self.tokens):
            twice, first = next((i, self.tokens.index(t)) for i, t in enumerate(self.tokens) if table[t] != i)
            raise TokenizerError(
                f"{self.source}: token {self.tokens[first]!r} has the ids {first} and {table[self.tokens[twice]]}; a token has one"
            )
        return table

    def token(self, token_id: int) -> str | None:
        """A token by its id, or None."""
        return self.tokens[token_id] if token_id < len(self.tokens) else None


def guessed_kinds(tokens: Sequence[str], special: Sequence[int]) -> list[int]:
    """Kinds where a file has none: special tokens are CONTROL, `<0x00>` to `<0xFF>` BYTE, all others NORMAL."""
    kinds: list[int] = [Kind.BYTE if BYTE_NAME.fullmatch(token) else Kind.NORMAL for token in tokens]
    for i in special:
        kinds[i] = Kind.CONTROL
    return kinds


def add_tokens(inner: tokenizers.Tokenizer, vocabulary: Vocabulary, *, strip_right: bool = False, normalized: bool = False) -> None:
    """Have control, unknown and user-defined tokens matched in a text as wholes, before anything else. `normalized`: user-defined ones
    in the normalized text."""
    special = vocabulary.named(Kind.CONTROL, Kind.UNKNOWN).values()
    inner.add_special_tokens([tokenizers.AddedToken(t, normalized=False, special=True, rstrip=strip_right) for t in special if t])
    user_defined = vocabulary.named(Kind.USER_DEFINED).values()
    inner.add_tokens([tokenizers.AddedToken(t, normalized=normalized and " " not in t) for t in user_defined if t])
