"""`--config FILE`: options of a command from a YAML file, under their own names. What stands on the command line counts more."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

OPTION = "--config"
LARGEST = 1 << 20  # bytes
MODEL = "MODEL"  # stands for the positional argument while a file's options are parsed


def told(parser: argparse.ArgumentParser, given: Sequence[str]) -> argparse.Namespace | None:
    """What the file says that the words of a command line name, for the command line to change; None where they name none.

    The parser's own rules hold: a wrong name or value is refused as it is on the command line."""
    path = _named(given)
    if path is None:
        return None
    try:
        words = [word for name, value in _read(path).items() for word in _words(name, value, parser._option_string_actions)]
    except (OSError, ValueError, ImportError) as wrong:
        parser.error(f"argument {OPTION}: {wrong}")
    return parser.parse_args([MODEL, *words])


def _named(given: Sequence[str]) -> Path | None:
    for word, after in zip(given, [*given[1:], ""], strict=True):
        if word == OPTION and after:
            return Path(after)
        if word.startswith(f"{OPTION}="):
            return Path(word.partition("=")[2])
    return None


def _read(path: Path) -> dict[str, Any]:
    try:
        import yaml
    except ImportError:
        raise ImportError("it needs pyyaml: pip install 'vtcore[serve]'") from None
    if path.stat().st_size > LARGEST:
        raise ValueError(f"{path} has {path.stat().st_size} bytes; it may have {LARGEST}")
    try:
        read = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as wrong:
        raise ValueError(f"{path} is no YAML: {' '.join(str(wrong).split())[:300]}") from None
    if not isinstance(read, dict) or not all(isinstance(name, str) and name.replace("_", "-") not in ("config", "model") for name in read):
        raise ValueError(f"{path} must map names of options to values, such as port: 8000; MODEL stands on the command line")
    return read


def _words(name: str, value: Any, known: Mapping[str, argparse.Action]) -> Iterator[str]:
    """An option as it would be typed: true and false are --name and --no-name, a list several words, a mapping JSON.

    A switch that has no opposite is left away where it is false, and so is the opposite of one where it is true."""
    option = "--" + name.replace("_", "-")
    opposite = "--no-" + option[2:]
    if isinstance(value, bool):
        said, unsaid = (option, opposite) if value else (opposite, option)
        if said in known or unsaid not in known or known[unsaid].nargs != 0:
            yield said
    elif value is None:
        raise ValueError(f"{name} has no value; leave it away, or give it one")
    elif isinstance(value, list):
        if wrong := [item for item in value if isinstance(item, bool) or not isinstance(item, (str, int, float))]:
            raise ValueError(f"{name} holds {wrong[0]!r:.80}; quote what is meant as a text")
        yield from (option, *map(str, value))
    else:
        yield f"{option}={json.dumps(value) if isinstance(value, dict) else value}"
