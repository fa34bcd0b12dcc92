"""Text to token ids, by the `tokenizers` library. Its Rust panics never leave as such."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import tokenizers

from vtcore.errors import TokenizerError

HIGHEST_ID = (1 << 24) - 1
LONG = 4096  # characters from which other threads go on while a text is encoded


class Encoder(Protocol):
    """What a tokenizer asks of the library behind it. `size`: all ids are below it."""

    size: int

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        """The ids of a text without lone surrogates. Special tokens written in it are recognised."""


class Around(NamedTuple):
    """The ids that a prompt gets in front and behind."""

    before: list[int]
    after: list[int]


@contextmanager
def guarded(source: str, doing: str) -> Iterator[None]:
    """Turn what the Rust libraries raise, panics too, into TokenizerError."""
    try:
        yield
    except (TokenizerError, MemoryError):
        raise
    except Exception as e:
        raise TokenizerError(f"{source}: {doing} failed: {e}") from e
    except BaseException as e:
        if type(e).__name__ != "PanicException":  # pyo3 derives it from BaseException
            raise
        raise TokenizerError(f"{source}: {doing} failed inside the tokenizers library: {e}") from e


def check_ids(source: str, highest: int) -> None:
    """Refuse ids that no vocabulary has: tables are made as long as the highest one."""
    if highest > HIGHEST_ID:
        raise TokenizerError(f"{source}: token id {highest} is too high; ids up to {HIGHEST_ID} are allowed")


class RustEncoder:
    """A `tokenizers.Tokenizer`.

    around: what special tokens to add; None leaves it to the tokenizer's own post-processor.
    prefixed: a text gets a space in front, unless it begins with one of these; None: it never does."""

    def __init__(
        self,
        inner: tokenizers.Tokenizer,
        size: int,
        source: str,
        around: Around | None = None,
        prefixed: Sequence[str] | None = None,
    ) -> None:
        self.inner, self.size, self.source, self.around = inner, size, source, around
        self._unprefixed = None if prefixed is None else tuple(prefixed)
        check_ids(source, size - 1)

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        if self._unprefixed is not None and text and not text.startswith(self._unprefixed):
            text = " " + text
        with guarded(self.source, "encoding a text"):
            ids = self._ids(text, add_special_tokens and self.around is None)
        if add_special_tokens and self.around is not None:
            return [*self.around.before, *ids, *self.around.after]
        return ids

    def _ids(self, text: str, add_special_tokens: bool) -> list[int]:
        if len(text) < LONG:  # the other way costs a few microseconds more, and threads of the library's own
            whole: list[int] = self.inner.encode(text, add_special_tokens=add_special_tokens).ids
            return whole
        (encoding,) = self.inner.encode_batch_fast([text], add_special_tokens=add_special_tokens)  # it lets go of the interpreter
        return list(encoding.ids)
