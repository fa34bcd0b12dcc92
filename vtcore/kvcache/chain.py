"""The keys of one sequence's content: one after each unit of tokens, each of which stands for all tokens before it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from vtcore.kvcache.hashing import Hasher
from vtcore.kvcache.identity import Identity


class Chain:
    """Grows with its sequence. What is kept of a sequence is kept at the multiples of `unit` tokens, and where its prompt `forks`: before
    the last token, which each of its n sequences computes by itself."""

    def __init__(
        self,
        hasher: Hasher,
        unit: int,
        tokens: Callable[[int, int], list[int]],
        prompt: int,
        forks: bool = False,
        identity: Identity | None = None,
    ) -> None:
        self.unit, self.prompt = unit, prompt
        self._hasher, self.tokens, self.identity = hasher, tokens, identity or Identity()
        self._keys: list[bytes] = []
        fork = prompt - 1
        self.fork = fork if forks and fork > 0 and fork % unit else 0  # 0: none, or a multiple of the unit anyway
        self._fork_key: bytes | None = None
        self.branch = 0  # so many first tokens it shares with another sequence that left no state there; 0: none is known

    def key(self, length: int) -> bytes:
        """Of the first `length` tokens: a multiple of the unit, or the fork. They must be known."""
        units, rest = divmod(length, self.unit)
        if rest:
            if self._fork_key is None:
                self._fork_key = self._after(self._whole(units), units * self.unit, length)
            return self._fork_key
        return self._whole(units)

    def known(self, length: int) -> bool:
        """Whether the sequence has so many tokens: the last one may still be in the making."""
        return bool(self.tokens(length - 1, length))

    def below(self, limit: int) -> int:
        """The largest length with a key that is at most `limit`."""
        whole = limit // self.unit * self.unit
        return self.fork if whole < self.fork <= limit else whole

    def lengths(self, begin: int, end: int) -> list[int]:
        """Those in (begin, end] with a key, in rising order."""
        unit = self.unit
        found = list(range((begin // unit + 1) * unit, end + 1, unit))
        if begin < self.fork <= end:
            found.insert(bisect_right(found, self.fork), self.fork)
        return found

    def ends(self, begin: int, end: int) -> bool:
        """Whether any length in (begin, end] has a key."""
        return end // self.unit > begin // self.unit or begin < self.fork <= end

    def _whole(self, units: int) -> bytes:
        keys, unit = self._keys, self.unit
        while len(keys) < units:
            begin = len(keys) * unit
            keys.append(self._after(keys[-1] if keys else self._hasher.first, begin, begin + unit))
        return keys[units - 1] if units else self._hasher.first

    def _after(self, before: bytes, begin: int, end: int) -> bytes:
        tokens = self.tokens(begin, end)
        assert len(tokens) == end - begin, f"a key of {end} tokens, of which {begin + len(tokens)} are known"
        return self._hasher(before, tokens, self.identity.extras(begin, end))
