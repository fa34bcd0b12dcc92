"""Metadata with typed reads: what a caller gets is of the type it asked for, or an error names the key, its value and what it should be."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeGuard, TypeVar

from vtcore.errors import ConfigError

D = TypeVar("D")
T = TypeVar("T")
REQUIRED: Any = object()


def _is_integer(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> TypeGuard[float]:
    return (_is_integer(value) or isinstance(value, float)) and abs(value) <= sys.float_info.max


def _is_boolean(value: Any) -> TypeGuard[bool]:
    return isinstance(value, bool)


def _is_text(value: Any) -> TypeGuard[str]:
    return isinstance(value, str)


def _listed(*types: type[T]) -> Callable[[Any], TypeGuard[list[T]]]:
    """Of these types exactly, which is quick to see: vocabularies have some 100,000 entries."""

    def test(value: Any) -> TypeGuard[list[T]]:
        return isinstance(value, list) and set(map(type, value)) <= set(types)

    return test


def _are_numbers(value: Any) -> TypeGuard[list[float]]:
    return _listed(int, float)(value) and all(abs(v) <= sys.float_info.max for v in value)


def short(value: Any) -> str:
    """A value as a message shows it: never long, whatever it is."""
    if isinstance(value, (list, tuple)) and len(value) > 8:
        return f"a list of {len(value)} values"
    if isinstance(value, dict):
        return f"an object of {len(value)} keys"
    text = repr(value[:80] if isinstance(value, str) else value)
    return text if len(text) <= 80 else text[:77] + "..."


class Metadata(Mapping[str, Any]):
    """A read-only mapping of keys to int, float, bool, str and lists of them, with typed reads.

    A typed read takes a default for a missing key; without one, and for a value of another type, it raises ConfigError. `source` names the
    file in messages."""

    def __init__(self, values: Mapping[str, Any], source: str = "metadata") -> None:
        self.values_by_key, self.source = values, source

    def __getitem__(self, key: str) -> Any:
        return self.values_by_key[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_key)

    def __len__(self) -> int:
        return len(self.values_by_key)

    def __contains__(self, key: object) -> bool:
        return key in self.values_by_key

    def __repr__(self) -> str:
        return f"Metadata({self.source}, {len(self)} keys)"

    def wrong(self, key: str, expected: str) -> ConfigError:
        """The error for a key whose value is not what is needed, or that isn't there."""
        if key not in self:
            return ConfigError(f"{self.source} lacks {key!r}: {expected} is needed")
        return ConfigError(f"{self.source}: {key!r} is {short(self[key])}; {expected} is needed")

    def _read(self, key: str, test: Callable[[Any], TypeGuard[T]], expected: str, default: D) -> T | D:
        if default is not REQUIRED and key not in self:
            return default
        value = self.get(key)
        if key not in self or not test(value):
            raise self.wrong(key, expected)
        return value

    def integer(self, key: str, default: D = REQUIRED, *, minimum: int = 0, maximum: int = (1 << 63) - 1) -> int | D:
        """A whole number within bounds, both allowed."""
        value = self._read(key, _is_integer, "an integer", default)
        if _is_integer(value) and key in self and not minimum <= value <= maximum:
            raise self.wrong(key, f"an integer from {minimum} to {maximum}")
        return value

    def number(self, key: str, default: D = REQUIRED) -> float | D:
        """A finite number, whole or not."""
        value = self._read(key, _is_number, "a finite number", default)
        return float(value) if key in self and _is_number(value) else value

    def boolean(self, key: str, default: D = REQUIRED) -> bool | D:
        """True or False, stored as such."""
        return self._read(key, _is_boolean, "a boolean", default)

    def text(self, key: str, default: D = REQUIRED) -> str | D:
        """A string."""
        return self._read(key, _is_text, "a string", default)

    def integers(self, key: str, default: D = REQUIRED) -> list[int] | D:
        """A list of whole numbers."""
        return self._read(key, _listed(int), "a list of integers", default)

    def numbers(self, key: str, default: D = REQUIRED) -> list[float] | D:
        """A list of finite numbers."""
        return self._read(key, _are_numbers, "a list of finite numbers", default)

    def booleans(self, key: str, default: D = REQUIRED) -> list[bool] | D:
        """A list of True and False."""
        return self._read(key, _listed(bool), "a list of booleans", default)

    def texts(self, key: str, default: D = REQUIRED) -> list[str] | D:
        """A list of strings."""
        return self._read(key, _listed(str), "a list of strings", default)

    def per_layer(self, key: str, layers: int, default: D = REQUIRED) -> list[int] | D:
        """One whole number for each layer: a single one stands for all layers, a list has exactly `layers`."""
        if key in self and _is_integer(self[key]):
            return [self[key]] * layers
        value = self.integers(key, default)
        if key in self and isinstance(value, list) and len(value) != layers:
            raise self.wrong(key, f"one integer, or a list of {layers} (one for each layer; it has {len(value)})")
        return value
