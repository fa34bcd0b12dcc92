"""`--config FILE`: options of a command from a YAML file, under their own names. What stands on the command line counts more."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

LARGEST = 1 << 20  # bytes
MODEL = "MODEL"  # stands for the positional argument while a file's options are parsed


class ConfigFile(argparse.Action):
    """Reads the file where it is named, by the parser's own rules: a wrong name or value is refused as it is on the command line."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Set what the file says, but for options that were given already."""
        try:
            told = _read(Path(str(values)))
            arguments = [word for name, value in told.items() for word in _words(name, value)]
        except (OSError, ValueError, ImportError) as wrong:
            raise argparse.ArgumentError(self, str(wrong)) from None
        read = parser.parse_args([MODEL, *arguments])
        for name, value in vars(read).items():
            default = parser.get_default(name)
            if value != default and name != "model" and getattr(namespace, name, default) == default:
                setattr(namespace, name, value)


def _read(path: Path) -> dict[str, Any]:
    try:
        import yaml
    except ImportError:
        raise ImportError("it needs pyyaml: pip install 'vtcore[serve]'") from None
    if path.stat().st_size > LARGEST:
        raise ValueError(f"{path} has {path.stat().st_size} bytes; it may have {LARGEST}")
    try:
        told = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as wrong:
        raise ValueError(f"{path} is no YAML: {' '.join(str(wrong).split())[:300]}") from None
    if not isinstance(told, dict) or not all(isinstance(name, str) and name.replace("_", "-") not in ("config", "model") for name in told):
        raise ValueError(f"{path} must map names of options to values, such as port: 8000; MODEL stands on the command line")
    return told


def _words(name: str, value: Any) -> Iterator[str]:
    """An option as it would be typed: true and false are --name and --no-name, a list several words, a mapping JSON."""
    option = "--" + name.replace("_", "-")
    if isinstance(value, bool):
        yield option if value else "--no-" + option[2:]
    elif isinstance(value, list):
        yield from (option, *map(str, value))
    else:
        yield f"{option}={json.dumps(value) if isinstance(value, dict) else value}"
