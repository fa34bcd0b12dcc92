"""What keys and values depend on besides the tokens: two sequences share pages only where all of it is the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from vtcore.kvcache.hashing import Extras


@dataclass(frozen=True)
class Media:
    """An image or a sound that stands at the tokens [begin, begin + length). `digest`: of its content, whatever it is called."""

    digest: str
    begin: int
    length: int


@dataclass(frozen=True)
class Identity:
    """`lora`: the adapter's name. `salt`: whoever doesn't know it shares nothing. `rope`: where angles grow with the prompt, its length."""

    lora: str | None = None
    media: tuple[Media, ...] = ()
    salt: str | None = None
    rope: int = 0

    def extras(self, begin: int, end: int) -> Extras:
        """What goes into the key of the tokens [begin, end), in vLLM's order; the salt and the length are in the first block's, and so,
        through the chain, in all."""
        return tuple(self._parts(begin, end)) or None

    def _parts(self, begin: int, end: int) -> Iterator[tuple[Any, ...]]:
        if self.lora is not None:
            yield "lora", self.lora
        yield from (("mm", m.digest, m.begin - begin) for m in self.media if m.begin < end and begin < m.begin + m.length)
        if self.salt is not None and not begin:
            yield "cache_salt", self.salt
        if self.rope and not begin:
            yield "rope", self.rope


PLAIN = Identity()  # of text alone, for everybody
