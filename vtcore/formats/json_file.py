"""JSON that came from outside: bounded in size and depth, keys unique, errors that name the file and the place."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from vtcore.errors import CheckpointError, ConfigError
from vtcore.formats.metadata import short
from vtcore.formats.raw import map_file

LARGEST = 64 << 20  # bytes
MOST_GROUPS, MOST_ITEMS = 1 << 20, 1 << 22  # objects and lists; values in them: what is small on disk may be large in memory
DEEPEST = 64


def parse_json(raw: bytes, source: str, error: type[CheckpointError]) -> Any:
    """The value that UTF-8 text spells. Raises `error`, naming `source`, for anything that is not JSON or is over the bounds."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(pairs)
        if len(out) < len(pairs):
            twice = Counter(k for k, _ in pairs).most_common(1)[0][0]
            raise error(f"{source}: key {short(twice)} comes twice in an object; keys are unique")
        return out

    _check_bounds(raw, source, error)
    try:
        value = json.loads(raw.decode(), object_pairs_hook=unique)
    except UnicodeDecodeError as e:
        raise error(f"{source} is not UTF-8: {e.reason} at byte {e.start}") from e
    except json.JSONDecodeError as e:
        raise error(f"{source} is not JSON: {e.msg} at line {e.lineno}, column {e.colno}") from e
    except ValueError as e:  # a whole number of thousands of digits
        raise error(f"{source} holds a number that can't be read: {e}") from e
    except RecursionError as e:
        raise error(f"{source} is nested more than {DEEPEST} deep") from e
    if _deeper(value, DEEPEST):
        raise error(f"{source} is nested more than {DEEPEST} deep")
    return value


def _check_bounds(raw: bytes, source: str, error: type[CheckpointError]) -> None:
    groups, items = raw.count(b"[") + raw.count(b"{"), raw.count(b",")
    if len(raw) > LARGEST:
        raise error(f"{source} has {len(raw)} bytes of JSON; at most {LARGEST} are read")
    if groups > MOST_GROUPS or items > MOST_ITEMS:
        raise error(f"{source} holds {groups} brackets and {items} commas; at most {MOST_GROUPS} and {MOST_ITEMS} are read")


def _deeper(value: Any, depth: int) -> bool:
    """Whether lists and objects are nested more than `depth` deep."""
    level = [value]
    for _ in range(depth):
        level = [c for v in level if isinstance(v, (dict, list)) for c in (v.values() if isinstance(v, dict) else v)]
    return any(isinstance(v, (dict, list)) for v in level)


def read_object(path: Path, error: type[CheckpointError] = ConfigError) -> dict[str, Any]:
    """The JSON object that a file holds."""
    data = map_file(path, error)
    if len(data) > LARGEST:
        raise error(f"{path} has {len(data)} bytes; at most {LARGEST} of JSON are read")
    value = parse_json(data.tobytes(), str(path), error)
    if not isinstance(value, dict):
        raise error(f"{path} holds {short(value)}; a JSON object is needed")
    return value
