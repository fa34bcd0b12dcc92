"""What a tokenizer.json may ask of the tokenizers library. Where that runs out of memory it ends the process, so the file is held against
these bounds first: a few lines that double a text forty times ask for terabytes."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any

import tokenizers

from vtcore.errors import TokenizerError
from vtcore.formats.metadata import short

MOST_GROWTH = 256  # times as long as a text may become before it is cut into tokens; of real tokenizers the largest is about 40
MOST_PARTS = 1024  # of a post-processor's template
ESCAPED = re.compile(rb"\\u00[2-7]")  # plain letters written as escapes, which no writer does: words may hide in them
Part = Mapping[str, Any]


def check_charsmaps(raw: bytes, source: str) -> None:
    """Refuse a precompiled character map whose header counts more bytes than there are: the library allocates what it counts."""
    if b"precompiled_charsmap" not in raw and not ESCAPED.search(raw):
        return
    try:
        whole = json.loads(raw)
    except (ValueError, RecursionError):
        return  # the library says better what is wrong
    for part in _parts(whole.get("normalizer") if isinstance(whole, dict) else None, "normalizers"):
        if "precompiled_charsmap" in part:
            _charsmap(part["precompiled_charsmap"], source)


def check_growth(inner: tokenizers.Tokenizer, source: str) -> None:
    """Refuse normalizers and pre-tokenizers that make a text much longer, and post-processors that repeat it."""
    growth = 1
    for part in (*_parts(_state(inner.normalizer), "normalizers"), *_parts(_state(inner.pre_tokenizer), "pretokenizers")):
        growth *= _growth(part, source)
        if growth > MOST_GROWTH:
            raise TokenizerError(
                f"{source}: up to {short(part.get('type'))} its normalizer makes a text {growth} times as long; {MOST_GROWTH} are allowed"
            )
    for part in _parts(_state(inner.post_processor), "processors"):
        _check_template(part, source)


def _state(component: Any) -> Any:
    return None if component is None else json.loads(component.__getstate__())


def _parts(component: Any, key: str) -> Iterator[Part]:
    """A component, or those of a sequence, one after the other, however nested."""
    waiting = [component]
    while waiting:
        part = waiting.pop()
        if not isinstance(part, dict):
            continue
        if part.get("type") == "Sequence" and isinstance(part.get(key), list):
            waiting += reversed(part[key])
        else:
            yield part


def _growth(part: Part, source: str) -> int:
    """How many characters one may become. Unicode's normal forms count as one: done twice they change nothing more."""
    kind = part.get("type")
    if kind == "ByteLevel":
        return 2
    if kind == "Precompiled":
        return _charsmap(part["precompiled_charsmap"], source)
    if kind == "Prepend":
        return 1 + len(part["prepend"])
    if kind != "Replace":
        return 1
    old, new = part["pattern"].get("String"), len(part["content"])
    if old:
        return max(1, ceil(new / len(old)))
    return 1 + new if new else 1  # an expression may match between any two characters


def _charsmap(encoded: Any, source: str) -> int:
    try:
        return check_charsmap(base64.b64decode(encoded or "", validate=True), source)
    except (ValueError, TypeError) as e:
        raise TokenizerError(f"{source}: 'precompiled_charsmap' is {short(encoded)}; base64 is needed") from e


def check_charsmap(data: bytes, source: str) -> int:
    """The bytes of the longest replacement in SentencePiece's character map: u32 size of a trie, the trie, texts that end in a zero.

    Raises TokenizerError for a size that isn't true, and for a replacement over the bound."""
    if not data:
        return 1
    size, rest = int.from_bytes(data[:4], "little"), len(data) - 4
    if rest < 0 or size > rest:
        raise TokenizerError(f"{source}: 'precompiled_charsmap' counts {size} bytes of a trie, and {max(0, rest)} follow")
    longest = max(map(len, data[4 + size :].split(b"\0")))
    if longest > MOST_GROWTH:
        raise TokenizerError(f"{source}: 'precompiled_charsmap' replaces a character by {longest} bytes; {MOST_GROWTH} are allowed")
    return max(1, longest)


def _check_template(part: Part, source: str) -> None:
    if part.get("type") != "TemplateProcessing":
        return
    single = part["single"]
    repeated = sum("Sequence" in piece for piece in single)
    if repeated > 1 or len(single) > MOST_PARTS:
        raise TokenizerError(
            f"{source}: 'post_processor' writes the text {repeated} times among {len(single)} parts; once among {MOST_PARTS} is allowed"
        )
