"""Values of a config.json (or of what GGUF metadata says in its words), checked as they are read."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from vtcore.errors import ConfigError
from vtcore.formats.metadata import short

Json = dict[str, Any]
LARGEST = sys.float_info.max
MOST = 2**31 - 1  # positions and windows are int32


class Fields:
    """A JSON object that is read by key. Each reader takes the spellings of one number, the first that is there counts; null is absent.

    ConfigError names the key as the file spells it, its value, and what is allowed."""

    def __init__(self, raw: Json, file: str = "config.json", spelled: Mapping[str, str] | None = None) -> None:
        self.raw, self.file, self.spelled = raw, file, spelled or {}

    def has(self, key: str) -> bool:
        """Whether there is a value."""
        return self.raw.get(key) is not None

    def integer(self, *keys: str, default: int | None = None, low: int = 1, high: int = MOST) -> int:
        """A whole number; 8.0 is one too."""
        key, value = self._find(keys, default, wanted := f"a whole number from {low} to {high}")
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self._refuse(key, value, wanted)
        return value

    def number(self, *keys: str, default: float | None = None, low: float = 0.0, high: float = 1e12, above: bool = False) -> float:
        """A finite number; with `above`, greater than `low`."""
        wanted = f"a number {'above' if above else 'from'} {low:g} {'and up ' if above else ''}to {high:g}"
        key, value = self._find(keys, default, wanted)
        good = isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value <= high
        if not good or (above and value == low):
            self._refuse(key, value, wanted)
        return float(value)

    def flag(self, key: str, default: bool = False) -> bool:
        """true or false."""
        _, value = self._find((key,), default, "true or false")
        if not isinstance(value, bool):
            self._refuse(key, value, "true or false")
        return value

    def word(self, *keys: str, default: str, allowed: Iterable[str]) -> str:
        """One of some words."""
        key, value = self._find(keys, default, "")
        if value not in (known := sorted(allowed)):
            self._refuse(key, value, f"one of {', '.join(known)}")
        return str(value)

    def numbers(self, key: str, count: int, default: list[float] | None = None) -> list[float]:
        """A list of `count` positive numbers."""
        _, value = self._find((key,), default, wanted := f"a list of {count} numbers above 0")
        good = isinstance(value, (list, tuple)) and all(type(v) in (int, float) and 0 < v <= LARGEST for v in value)
        if not good or len(value) != count:
            self._refuse(key, value, wanted)
        return [float(v) for v in value]

    def shares(self, key: str, count: int) -> list[float]:
        """A list of `count` numbers from 0 to below 1."""
        value = self.raw[key]
        good = isinstance(value, (list, tuple)) and all(type(v) in (int, float) and 0 <= v < 1 for v in value)
        if not good or len(value) != count:
            self._refuse(key, value, f"a list of {count} numbers from 0 to below 1")
        return [float(v) for v in value]

    def integers(self, key: str, count: int) -> list[int]:
        """A list of `count` whole numbers from 1 on."""
        value = self.raw[key]
        if not isinstance(value, (list, tuple)) or len(value) != count or any(type(v) is not int or v < 1 for v in value):
            self._refuse(key, value, f"a list of {count} whole numbers, from 1 on")
        return list(value)

    def switches(self, key: str, count: int) -> None:
        """A list of at least `count` zeros and ones."""
        value = self.raw[key]
        if not isinstance(value, (list, tuple)) or len(value) < count or any(v not in (0, 1) for v in value):
            self._refuse(key, value, f"a list of {count} zeros and ones, one a layer (num_hidden_layers)")

    def words(self, key: str, count: int, allowed: Iterable[str]) -> tuple[str, ...] | None:
        """A list of `count` words, all of them known; None if there is none."""
        if not self.has(key):
            return None
        value, known = self.raw[key], set(allowed)
        if not isinstance(value, (list, tuple)) or len(value) != count:
            self._refuse(key, value, f"a list of {count} words, one a layer (num_hidden_layers)")
        for word in value:
            if not isinstance(word, str) or word not in known:
                self._refuse(key, word, f"made of {', '.join(sorted(known))}")
        return tuple(value)

    def indices(self, key: str) -> list[int] | None:
        """A list of whole numbers from 0 on; None if there is none."""
        if not self.has(key):
            return None
        value = self.raw[key]
        if not isinstance(value, (list, tuple)) or any(type(v) is not int or v < 0 for v in value):
            self._refuse(key, value, "a list of whole numbers, from 0 on")
        return list(value)

    def mapping(self, key: str) -> Json:
        """An object, empty if absent."""
        value = self.raw[key] if self.has(key) else {}
        if not isinstance(value, dict):
            self._refuse(key, value, "an object")
        return value

    def name(self, key: str) -> str:
        """A key as the file spells it."""
        return self.spelled.get(key, key)

    def called(self, *keys: str) -> str:
        """The first of some keys that is there, as the file spells it."""
        return self.name(next(filter(self.has, keys), keys[0]))

    def _find(self, keys: tuple[str, ...], default: Any, wanted: str) -> tuple[str, Any]:
        for key in keys:
            if self.has(key):
                return key, self.raw[key]
        if default is None:
            raise ConfigError(f"{self.file} has no {' or '.join(map(self.name, keys))}; it must be {wanted}")
        return keys[0], default

    def _refuse(self, key: str, value: Any, wanted: str) -> NoReturn:
        count = f" ({len(value)} entries)" if isinstance(value, (list, tuple)) else ""
        raise ConfigError(f"{self.file}: {self.name(key)} is {short(value)}{count}; it must be {wanted}")
