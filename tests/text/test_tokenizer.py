"""Encoding: added tokens and their flags, lone surrogates, BOS exactly once, unknown ids."""

import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.text.kit import added, bos_processor, byte_json, from_json, from_metadata, spm_metadata
from vtcore.errors import ArgumentError, TemplateError
from vtcore.text import Tokenizer

BOS, EOS = 256, 257
SPECIAL = (added(BOS, "<s>", special=True), added(EOS, "</s>", special=True))
CONFIG = {"bos_token": "<s>", "eos_token": {"content": "</s>"}}
TEMPLATE = "{{ bos_token }}{{ messages[0].content }}"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return from_json(tmp_path_factory.mktemp("plain"), byte_json(*SPECIAL), tokenizer_config=CONFIG)


@pytest.fixture(scope="module")
def chatty(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """It puts BOS in front, and so does its chat template."""
    files = {"tokenizer_config": {**CONFIG, "chat_template": TEMPLATE}}
    return from_json(tmp_path_factory.mktemp("chatty"), byte_json(*SPECIAL, post_processor=bos_processor("<s>", BOS)), **files)


@pytest.mark.parametrize(("text", "count"), [("<|user|>Hi", 3), ("a  <|user|>  b", 5)])
def test_rstrip_swallows_white_space_and_is_no_condition(tmp_path, text, count):
    tokenizer = from_json(tmp_path, byte_json(added(256, "<|user|>", special=True, rstrip=True)))
    ids = tokenizer.encode(text)
    assert len(ids) == count
    assert 256 in ids


@pytest.mark.parametrize(("text", "count"), [("<|user|>Hi", 10), ("x<|user|>", 9), ("x <|user|> y", 5), ("a\u00a0<|user|>b", 12)])
def test_single_word_tokens_match_between_spaces_only(tmp_path, text, count):
    tokenizer = from_json(tmp_path, byte_json(added(256, "<|user|>", special=True, single_word=True)))
    ids = tokenizer.encode(text)
    assert len(ids) == count
    assert (256 in ids) == (count == 5)


def test_halves_of_a_surrogate_pair_are_joined_and_a_lone_one_is_replaced(plain, chatty):
    assert bytes(plain.encode("\ud83d\udc4d")) == "\U0001f44d".encode()
    assert bytes(plain.encode("\ud83d")) == "\ufffd".encode()
    assert bytes(plain.encode("a\udc4db")) == "a\ufffdb".encode()
    by_chat = chatty.encode_chat([{"role": "user", "content": "\ud83d\udc4d\ud83d"}])
    assert bytes(by_chat[1:]) == "\U0001f44d\ufffd".encode()


def test_a_long_text_is_encoded_as_its_parts_are(chatty):
    text = "hé</s>llo " * 1000
    assert chatty.encode(text) == [BOS, *chatty.encode(text[:100], add_special_tokens=False) * 100]


def turns_beside(encode, text):
    """How often this thread has its turn while another one encodes."""
    encoding, turns = threading.Thread(target=encode, args=(text,)), 0
    encoding.start()
    while encoding.is_alive():
        time.sleep(0.001)
        turns += 1
    return turns


def test_other_threads_go_on_while_a_long_text_is_encoded(plain):
    """Where the library keeps the interpreter to itself there are about two turns, however long the text is."""
    assert any(turns_beside(plain.encode, "hello world " * (25_000 << n)) > 20 for n in range(5))


def test_bos_comes_exactly_once_on_every_way_in(chatty):
    assert chatty.encode("hi") == [BOS, *b"hi"]
    assert chatty.encode_chat([{"role": "user", "content": "hi"}]) == [BOS, *b"hi"]
    assert chatty.encode("<s>hi") == [BOS, *b"hi"]
    assert chatty.encode("<s>hi", add_special_tokens=False) == [BOS, *b"hi"]
    assert chatty.encode("") == [BOS]
    assert chatty.encode("<s><s>") == [BOS, BOS]


def test_without_a_bos_of_its_own_a_text_keeps_what_it_says(plain):
    assert plain.encode("<s><s>x") == [BOS, BOS, *b"x"]
    assert not plain.adds_bos


def test_special_tokens_are_skipped_or_shown(plain):
    ids = [BOS, *"é".encode(), EOS]
    assert plain.decode(ids) == "é"
    assert plain.decode(ids, skip_special_tokens=False) == "<s>é</s>"
    assert (plain.bos_id, plain.eos_ids, plain.vocab_size) == (BOS, {EOS}, 258)


def test_bytes_of_tokens_are_exact(plain):
    assert [plain.token_bytes(i) for i in (0xE9, 0x20, BOS, 999)] == [b"\xe9", b" ", b"<s>", b""]


def test_an_id_that_no_token_has_says_nothing_and_a_negative_one_is_refused(plain):
    assert plain.decode([104, 5000, 105]) == "hi"
    with pytest.raises(ArgumentError, match="token id -1 is none"):
        plain.decode([-1])
    with pytest.raises(ArgumentError, match="token id -7 is none"):
        plain.token_bytes(-7)


def test_an_added_token_means_what_it_says_in_any_alphabet(tmp_path):
    """In the byte alphabet, é is the byte E9 and a space has no letter."""
    tokenizer = from_json(tmp_path, byte_json(added(256, "é à"), added(257, "<a b>", special=True)))
    ids = tokenizer.encode("xé ày<a b>")
    assert ids == [*b"x", 256, *b"y", 257]
    assert tokenizer.decode(ids, skip_special_tokens=False) == "xé ày<a b>"


@given(st.text())
def test_decode_undoes_encode(plain, text):
    assert plain.decode(plain.encode(text), skip_special_tokens=False) == text


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\u2581")))
def test_decode_undoes_encode_with_a_space_in_front(text):
    assert SPM.decode(SPM.encode(text), skip_special_tokens=True) == text


SPM = from_metadata(spm_metadata({"\u2581": -1.0, "a": -2.0, "\u2581a": -3.0}))


def test_a_model_without_a_template_says_so(plain):
    with pytest.raises(TemplateError, match="no chat template: give one as chat_template"):
        plain.encode_chat([{"role": "user", "content": "x"}])
    assert plain.chat_template is None


def test_of_several_templates_tools_choose_theirs(tmp_path):
    named = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}, {"name": "rag", "template": "rag"}]
    tokenizer = from_json(tmp_path, byte_json(), tokenizer_config={"chat_template": named})
    tool = {"type": "function", "function": {"name": "f"}}
    assert tokenizer.decode(tokenizer.encode_chat([])) == "plain"
    assert tokenizer.decode(tokenizer.encode_chat([], tools=[tool])) == "tools"
    assert tokenizer.decode(tokenizer.encode_chat([], chat_template="rag")) == "rag"
    assert tokenizer.decode(tokenizer.encode_chat([], chat_template="{{ 1 + 1 }}")) == "2"


def test_a_broken_template_keeps_no_model_from_loading(tmp_path):
    tokenizer = from_json(tmp_path, byte_json(), tokenizer_config={"chat_template": "{% if %}"})
    with pytest.raises(TemplateError, match="doesn't parse"):
        tokenizer.encode_chat([])
    assert tokenizer.decode(tokenizer.encode_chat([], chat_template="fine")) == "fine"


@pytest.mark.parametrize("text", [5, None, b"a", ["a"]])
def test_only_a_text_is_encoded(tmp_path, text):
    with pytest.raises(ArgumentError, match=f"the text to encode is a {type(text).__name__}"):
        from_json(tmp_path, byte_json()).encode(text)


@pytest.mark.parametrize("ids", [5, None, "ab", b"ab"])
def test_only_a_list_is_decoded(tmp_path, ids):
    with pytest.raises(ArgumentError, match=f"the ids to decode are a {type(ids).__name__}"):
        from_json(tmp_path, byte_json()).decode(ids)


@pytest.mark.parametrize("wrong", [1.5, "a", None, True, -1])
def test_an_id_is_an_integer(tmp_path, wrong):
    tokenizer = from_json(tmp_path, byte_json())
    for call in (lambda: tokenizer.decode([wrong]), lambda: tokenizer.token_bytes(wrong), lambda: tokenizer.stream().push(wrong)):
        with pytest.raises(ArgumentError, match="is none; ids are integers from 0 on"):
            call()


def test_ids_of_numpy_are_ids(tmp_path):
    tokenizer = from_json(tmp_path, byte_json())
    assert (tokenizer.decode(np.array([97, 98])), tokenizer.token_bytes(np.uint8(97)), tokenizer.decode([10**30])) == ("ab", b"a", "")


def test_a_template_is_a_text(tmp_path):
    with pytest.raises(ArgumentError, match="chat_template is a int"):
        from_json(tmp_path, byte_json()).template(5)
