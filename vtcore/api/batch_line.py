"""One line of OpenAI's batch format: a request with a name of its own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vtcore.errors import ArgumentError

URLS = ("/v1/chat/completions", "/v1/completions")
LONGEST_LINE = 64 << 20  # bytes
KEYS = {"custom_id": str, "method": str, "url": str, "body": dict}


@dataclass(frozen=True)
class BatchLine:
    """`digest` names the request by what it asks, so that an answer is never taken for another request's."""

    custom_id: str
    url: str
    body: dict[str, Any]

    @property
    def digest(self) -> str:
        """32 hex digits of url and body."""
        asked = json.dumps([self.url, self.body], sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(asked.encode()).hexdigest()[:32]

    @property
    def answer_id(self) -> str:
        """The `id` of its answer's line."""
        return f"vtcore-{self.digest}"


def read_batch(path: Path) -> Iterator[BatchLine]:
    """The lines of a file. ArgumentError names the line that isn't one, and the second of two with the same custom_id."""
    seen: dict[str, int] = {}
    with path.open("rb") as file:
        for number, raw in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), b""), 1):
            if len(raw) > LONGEST_LINE:
                raise ArgumentError(f"{path}, line {number}: over {LONGEST_LINE >> 20} MiB; a line holds one request")
            if raw.strip():
                line = _line(raw, f"{path}, line {number}")
                if (other := seen.setdefault(line.custom_id, number)) != number:
                    raise ArgumentError(
                        f"{path}, line {number}: custom_id {line.custom_id!r:.100} is that of line {other}; each needs its own"
                    )
                yield line


def _line(raw: bytes, where: str) -> BatchLine:
    try:
        told = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"{where}: no JSON: {str(error)[:200]}") from None
    if not isinstance(told, dict):
        raise ArgumentError(f"{where}: {type(told).__name__}; it must be an object with {', '.join(KEYS)}")
    for key, kind in KEYS.items():
        if not isinstance(told.get(key), kind):
            raise ArgumentError(f"{where}: {key} is {told.get(key)!r:.80}; it must be {'an object' if kind is dict else 'a text'}")
    if told["method"] != "POST" or told["url"] not in URLS:
        raise ArgumentError(f"{where}: {told['method']!r:.20} {told['url']!r:.80} isn't served; POST {' or '.join(URLS)} is")
    if told["body"].get("stream"):
        raise ArgumentError(f"{where}: body.stream is {told['body']['stream']!r:.20}; an answer in a file comes whole: leave it away")
    return BatchLine(told["custom_id"], told["url"], told["body"])
