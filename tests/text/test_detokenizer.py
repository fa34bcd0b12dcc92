"""Streams: half characters, skipped tokens, and the law that what a stream says is what a decode at once says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.text.kit import MARK, USER_DEFINED, added, bpe_metadata, byte_json, from_json, from_metadata, spm_metadata
from vtcore.errors import ArgumentError
from vtcore.text import Tokenizer

SPM = from_metadata(
    spm_metadata({MARK: -1.0, f"{MARK}잠": -2.0, f"{MARK}수": -3.0, "a": -4.0, f"{MARK}{MARK}": -5.0}, {"<x y>": USER_DEFINED})
)
BPE = from_metadata(bpe_metadata(["Ġ b", "Ã ©", "Ġ æ"], {"<|end|>": 3, " b": USER_DEFINED}))


def said(tokenizer: Tokenizer, ids: list[int], skip: bool = True) -> list[str]:
    stream = tokenizer.stream(skip)
    return [*map(stream.push, ids), stream.finish()]


def ids_of(tokenizer: Tokenizer, *pieces: str) -> list[int]:
    table = {tokenizer._pieces.token(i): i for i in range(tokenizer.vocab_size)}
    return [table[piece] for piece in pieces]


def test_a_stray_byte_before_a_space_is_replaced_at_once():
    ids = ids_of(BPE, "Ä", "Ġb")
    assert said(BPE, ids) == ["", "\ufffd b", ""]
    assert BPE.decode(ids) == "\ufffd b"


def test_a_character_is_whole_before_an_added_token_that_starts_with_a_space():
    ids = ids_of(BPE, "æ", "Ń", "ª", " b")
    assert said(BPE, ids) == ["", "", "歪", " b", ""]


def test_what_is_whole_of_a_token_is_not_held_back():
    ids = ids_of(BPE, "Ġæ", "Ń", "ª", "<|end|>")
    assert said(BPE, ids) == [" ", "", "歪", "", ""]


def test_a_dangling_half_is_one_replacement_at_the_end():
    ids = ids_of(BPE, "Ġæ", "<|end|>")
    assert said(BPE, ids) == [" ", "", "\ufffd"]
    assert BPE.decode(ids) == " \ufffd"


def test_byte_pieces_are_bytes_and_wait_for_the_third():
    ids = ids_of(SPM, f"{MARK}잠", MARK, "<0xEA>", "<0xB9>", "<0xB0>", f"{MARK}수")
    assert said(SPM, ids) == ["잠", " ", "", "", "깰", " 수", ""]
    assert SPM.decode(ids) == "잠 깰 수"


def test_a_byte_that_is_spelled_out_is_text():
    assert ids_of(SPM, "<0xEA>")[0] not in SPM.encode("<0xEA>")
    assert SPM.decode(SPM.encode("<0xEA>")) == "<0xEA>"


def test_only_the_first_space_of_all_is_taken_off():
    ids = ids_of(SPM, MARK + MARK, "a", f"{MARK}수")
    assert said(SPM, ids) == [" ", "a", " 수", ""]
    assert said(SPM, [1, *ids]) == ["", " ", "a", " 수", ""]
    assert said(SPM, [1, *ids], skip=False) == ["<s>", "  ", "a", " 수", ""]


def test_a_finished_stream_begins_anew():
    stream = SPM.stream()
    ids = ids_of(SPM, f"{MARK}수", "<0xEA>")
    for _ in range(2):
        assert [*map(stream.push, ids), stream.finish()] == ["수", "", "\ufffd"]


def test_a_negative_id_is_refused():
    with pytest.raises(ArgumentError, match="token id -1 is none"):
        SPM.stream().push(-1)


DECODERS = {
    "none": None,
    "byte_level": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    "metaspace": {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "always", "split": True},
    "word_piece": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    "spm": {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": MARK}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ],
    },
}
WORDS = ["a", "##b", MARK, f"{MARK}c", MARK * 2, ".", "n't", "<0xE6>", "<0xAD>", "<0xAA>", "é", "Ġ", "æ", "Ń", "ª"]


@pytest.fixture(scope="module", params=DECODERS)
def any_tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    model = {"type": "BPE", "vocab": {word: i for i, word in enumerate(WORDS)}, "merges": []}
    tokens = (added(20, "<|x y|>", special=True), added(21, " z"), added(30, f"{MARK}é"))
    directory = tmp_path_factory.mktemp(request.param)
    return from_json(directory, byte_json(*tokens, model=model, pre_tokenizer=None, decoder=DECODERS[request.param]))


@given(ids=st.lists(st.integers(0, 34)), skip=st.booleans())
def test_a_stream_says_what_a_decode_says(any_tokenizer, ids, skip):
    parts = said(any_tokenizer, ids, skip)
    assert "".join(parts) == any_tokenizer.decode(ids, skip)
    assert not any("\ufffd" in part for part in parts) or "\ufffd" in any_tokenizer.decode(ids, skip)


@given(ids=st.lists(st.integers(0, 14)))
def test_text_is_what_the_library_decodes_where_all_of_it_is_text(any_tokenizer, ids):
    library = any_tokenizer._encoder.inner.decode(ids, skip_special_tokens=True)
    ours = any_tokenizer.decode(ids)
    assert ours == library or "\ufffd" in library
