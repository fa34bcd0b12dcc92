"""SentencePiece models: cut as sentencepiece itself cuts them, and broken ones refused."""

import base64
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.text.kit import checkpoint
from vtcore.errors import TokenizerError
from vtcore.text import Tokenizer, load_tokenizer
from vtcore.text.sentencepiece import read_sentencepiece

DATA = json.loads((Path(__file__).parent.parent / "data/text/sentencepiece.json").read_text(encoding="utf-8"))
RAW = base64.b64decode(DATA["bpe"]["model"])


def load(directory: Path, raw: bytes, config: dict[str, object] | None = None) -> Tokenizer:
    (directory / "tokenizer.model").write_bytes(raw)
    (directory / "tokenizer_config.json").write_text(json.dumps(config or {}))
    return load_tokenizer(checkpoint(directory))


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_texts_are_cut_as_sentencepiece_cuts_them(tmp_path, kind):
    tokenizer = load(tmp_path, base64.b64decode(DATA[kind]["model"]))
    wrong = [(text, ids) for text, ids in DATA[kind]["vectors"] if tokenizer.encode(text, add_special_tokens=False) != ids]
    assert not wrong


def test_a_bpe_model_gets_bos_and_a_unigram_model_eos(tmp_path):
    bpe = load(tmp_path, RAW)
    assert (bpe.encode("")[:1], bpe.bos_id, bpe.eos_ids) == ([1], 1, {2})
    assert load(tmp_path, RAW, {"add_bos_token": False, "add_eos_token": True}).encode("") == [2]
    assert load(tmp_path, base64.b64decode(DATA["unigram"]["model"])).encode("")[-1:] == [2]


def test_tokens_of_tokenizer_config_follow_the_models_own(tmp_path):
    size = load(tmp_path, RAW).vocab_size
    rows = {str(size + 1): {"content": "<|end|>", "special": True}, str(size + 2): {"content": "<tool>", "special": False}}
    tokenizer = load(tmp_path, RAW, {"added_tokens_decoder": rows, "eos_token": "<|end|>"})
    ids = tokenizer.encode("a<|end|><tool>", add_special_tokens=False)
    assert ids[-2:] == [size + 1, size + 2]
    assert (tokenizer.vocab_size, tokenizer.eos_ids, tokenizer.decode(ids)) == (size + 3, {size + 1}, "a<tool>")


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "no SentencePiece model: it has 0 pieces"),
        (RAW[:-3], "cut short or corrupt"),
        (b"\x0a\xff\xff\xff\xff\x7f", "cut short or corrupt"),
        (b"\x0b\x00", "wire type 3"),
        (b"\xff" * 30, "doesn't end"),
        (b"\x0a\x03\x0a\x01\xff", "piece 0 is not UTF-8"),
        (b"\x0a\x05\x15\x00\x00\x80\x3f", "piece 0 lacks its text"),
        (b"\x0a\x03\x0a\x01a\x12\x02\x18\x03", "the model type is word"),
        (b"\x0a\x03\x0a\x01a\x12\x03\xc0\x01\x01", "treat_whitespace_as_suffix"),
        (b"\x0a\x03\x0a\x01a\x1a\x02\x28\x00", "escape_whitespaces is off"),
        (b"\x0a\x03\x0a\x01a\x0a\x03\x0a\x01a\x12\x02\x18\x02", "token 'a' has the ids 0 and 1"),
        (b"\x0a\x03\x0a\x01a\x1a\x06\x12\x04\xff\xff\xff\x7f", "tokenizer.model: "),
    ],
)
def test_a_broken_model_is_refused_by_name(tmp_path, raw, words):
    with pytest.raises(TokenizerError, match=words) as caught:
        load(tmp_path, raw).encode("a")
    assert "tokenizer.model" in str(caught.value)


@given(at=st.integers(0, len(RAW) - 1), byte=st.integers(0, 255))
def test_no_changed_byte_does_worse_than_an_error(at, byte):
    try:
        read_sentencepiece(RAW[:at] + bytes([byte]) + RAW[at + 1 :], "tokenizer.model")
    except TokenizerError as e:
        assert "tokenizer.model" in str(e)  # noqa: PT017 - it may be refused or not; if it is, the message counts
