"""Typed reads of metadata."""

import pytest

from vtcore.errors import ConfigError
from vtcore.formats.metadata import Metadata

VALUES = {
    "n": 3,
    "x": 1.5,
    "t": "text",
    "b": True,
    "nan": float("nan"),
    "ns": [1, 2],
    "xs": [1, 2.5],
    "ts": ["a"],
    "bs": [True],
    "none": None,
}
METADATA = Metadata(VALUES, "m.gguf")
READS = {"integer": "n", "number": "nx", "boolean": "b", "text": "t"}
LISTS = {"integers": {"ns"}, "numbers": {"ns", "xs"}, "booleans": {"bs"}, "texts": {"ts"}}
ALLOWED = {**{k: set(v) for k, v in READS.items()}, **LISTS}


@pytest.mark.parametrize("read", ALLOWED)
@pytest.mark.parametrize("key", VALUES)
def test_a_read_gives_its_type_or_an_error(read, key):
    if key in ALLOWED[read]:
        assert getattr(METADATA, read)(key) == VALUES[key]
    else:
        with pytest.raises(ConfigError, match=f"m.gguf: '{key}' is .*; .* is needed"):
            getattr(METADATA, read)(key)


@pytest.mark.parametrize("read", ALLOWED)
def test_missing_keys(read):
    with pytest.raises(ConfigError, match=r"m\.gguf lacks 'gone'"):
        getattr(METADATA, read)("gone")
    assert getattr(METADATA, read)("gone", None) is None
    assert getattr(METADATA, read)("gone", 7) == 7


def test_bounds_of_integers():
    assert METADATA.integer("n", minimum=3, maximum=3) == 3
    assert METADATA.integer("gone", -5) == -5
    for bounds in ({"minimum": 4}, {"maximum": 2}):
        with pytest.raises(ConfigError, match="'n' is 3; an integer from"):
            METADATA.integer("n", **bounds)
    with pytest.raises(ConfigError, match="from 0 to"):
        Metadata({"n": -1}).integer("n")


def test_a_number_is_a_float():
    assert isinstance(METADATA.number("n"), float)


def test_one_for_each_layer():
    assert METADATA.per_layer("n", 2) == [3, 3]
    assert METADATA.per_layer("ns", 2) == [1, 2]
    assert METADATA.per_layer("gone", 2, None) is None
    for key in ("ns", "t", "gone"):
        with pytest.raises(ConfigError, match=f"'{key}'"):
            METADATA.per_layer(key, 3)


def test_messages_stay_short():
    metadata = Metadata({"t": "x" * 10**6, "ns": list(range(10**5))})
    for key in metadata:
        with pytest.raises(ConfigError) as caught:
            metadata.boolean(key)
        assert len(str(caught.value)) < 200


def test_it_is_a_mapping():
    assert dict(METADATA) == VALUES
    assert METADATA.get("gone", 1) == 1
    assert "n" in METADATA
    assert len(METADATA) == len(VALUES)
    assert repr(METADATA) == "Metadata(m.gguf, 10 keys)"
