"""Keys of content: what changes them, and what other engines make of the same tokens."""

import hashlib
import sys

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtcore.errors import ArgumentError
from vtcore.kvcache.chain import Chain
from vtcore.kvcache.hashing import ALGORITHMS, Hasher
from vtcore.kvcache.identity import Identity, Media

TOKENS = list(range(100, 140))


def chain(tokens=TOKENS, unit=4, algorithm="sha256", identity=None, forks=False):
    return Chain(Hasher(algorithm), unit, lambda begin, end: tokens[begin:end], len(tokens), forks, identity)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_key_stands_for_all_tokens_before_it(algorithm, monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    a, b = chain(algorithm=algorithm), chain([*TOKENS[:9], 1, *TOKENS[10:]], algorithm=algorithm)
    assert a.key(8) == b.key(8)
    assert all(a.key(n) != b.key(n) for n in (12, 16, 40))
    assert len({a.key(n) for n in range(0, 41, 4)}) == 11


def test_sha256_cbor_is_what_other_engines_compute(monkeypatch):
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    none = hashlib.sha256(cbor2.dumps("vllm-none-hash", canonical=True)).digest()
    first = hashlib.sha256(cbor2.dumps((none, (100, 101, 102, 103), None), canonical=True)).digest()
    second = hashlib.sha256(cbor2.dumps((first, (104, 105, 106, 107), None), canonical=True)).digest()
    assert chain(algorithm="sha256_cbor").key(8) == second


def test_where_collisions_can_be_made_the_start_is_random(monkeypatch):
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    assert chain(algorithm="xxhash").key(4) != chain(algorithm="xxhash").key(4)
    assert chain().key(4) == chain().key(4)


def test_a_library_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "cbor2", None)
    with pytest.raises(ArgumentError, match=r"needs the package cbor2: pip install 'vtcore\[hashing\]', or choose sha256"):
        Hasher("sha256_cbor")
    with pytest.raises(ArgumentError, match="is 'md5'; it must be one of sha256, sha256_cbor, xxhash, xxhash_cbor"):
        Hasher("md5")


@pytest.mark.parametrize(
    ("identity", "same"),
    [
        (Identity(lora="a"), 0),
        (Identity(salt="s"), 0),
        (Identity(rope=40), 0),
        (Identity(media=(Media("sha:1", 6, 3),)), 4),
        (Identity(media=(Media("sha:1", 12, 2),)), 12),
    ],
)
def test_what_content_depends_on_besides_tokens(identity, same):
    plain, other = chain(), chain(identity=identity)
    assert [n for n in range(4, 41, 4) if plain.key(n) == other.key(n)] == list(range(4, same + 1, 4))


def test_an_image_of_other_content_or_at_another_place_is_another():
    keys = {chain(identity=Identity(media=(Media(digest, begin, 3),))).key(12) for digest in ("1", "2") for begin in (5, 6)}
    assert len(keys) == 4


@given(st.integers(1, 9), st.integers(1, 40), st.integers(0, 40), st.integers(0, 40))
def test_lengths_with_a_key(unit, prompt, begin, limit):
    c = chain(TOKENS[:prompt], unit, forks=True)
    every = sorted({*range(unit, 41, unit), *([prompt - 1] if prompt > 1 else [])})
    assert c.lengths(begin, limit) == [n for n in every if begin < n <= limit]
    assert c.ends(begin, max(begin, limit)) == bool(c.lengths(begin, max(begin, limit)))
    assert c.below(limit) == max([n for n in every if n <= limit], default=0)


def test_a_fork_has_a_key_of_its_own():
    c = chain(TOKENS[:11], forks=True)
    assert c.fork == 10
    assert len({c.key(8), c.key(10)}) == 2
    assert c.key(10) == chain(TOKENS[:11], forks=True).key(10) != chain([*TOKENS[:9], 1, 2], forks=True).key(10)
