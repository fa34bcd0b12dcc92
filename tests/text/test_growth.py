"""A tokenizer.json that asks the library for more than there is: refused before the library, which would end the process, sees it."""

import base64
import json

import pytest

from tests.text.kit import added, byte_json, from_json
from vtcore.errors import TokenizerError
from vtcore.text.growth import MOST_GROWTH, check_charsmap

SPECIAL = (added(256, "<s>", special=True),)
DOUBLE = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
TEXT, START = {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<s>", "type_id": 0}}


def sequence(kind, *parts):
    return {"type": "Sequence", kind: list(parts)}


def charsmap(raw):
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(raw).decode()}


def template(*single, ids=(256,)):
    special = {"<s>": {"id": "<s>", "ids": list(ids), "tokens": ["<s>"] * len(ids)}}
    return {"type": "TemplateProcessing", "single": list(single), "pair": [TEXT], "special_tokens": special}


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"normalizer": sequence("normalizers", *[DOUBLE] * 40)}, "makes a text 512 times as long; 256 are allowed"),
        ({"normalizer": sequence("normalizers", sequence("normalizers", *[DOUBLE] * 20), DOUBLE)}, "512 times"),
        ({"normalizer": {"type": "Replace", "pattern": {"Regex": "."}, "content": "a" * 1000}}, "'Replace' .* 1001 times"),
        ({"normalizer": {"type": "Replace", "pattern": {"String": ""}, "content": "a" * 1000}}, "1001 times"),
        ({"normalizer": sequence("normalizers", *[{"type": "Prepend", "prepend": "ab" * 200}] * 2)}, "'Prepend' .* 401 times"),
        ({"normalizer": sequence("normalizers", *[{"type": "ByteLevel"}] * 40)}, "'ByteLevel' .* 512 times"),
        ({"pre_tokenizer": sequence("pretokenizers", *[BYTES] * 40)}, "'ByteLevel' .* 512 times"),
        ({"normalizer": charsmap(b"\xff" * 4)}, "counts 4294967295 bytes of a trie, and 0 follow"),
        ({"normalizer": sequence("normalizers", charsmap(b"\xff" * 9))}, "counts 4294967295 bytes of a trie, and 5 follow"),
        ({"normalizer": charsmap(b"ab")}, "counts 25185 bytes"),
        ({"normalizer": charsmap(bytes(8) + b"x" * 300)}, "replaces a character by 300 bytes; 256 are allowed"),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "?"}}, "base64 is needed"),
        ({"post_processor": template(TEXT, TEXT)}, "writes the text 2 times among 2 parts"),
        ({"post_processor": template(TEXT, *[START] * 2000)}, "among 2001 parts"),
        ({"post_processor": sequence("processors", *[template(TEXT, TEXT)] * 40)}, "writes the text 2 times"),
        ({"post_processor": template(START, TEXT, ids=[256, 4294967295])}, "adds token id 4294967295, and the vocabulary ends at 256"),
        ({"post_processor": {"type": "BertProcessing", "sep": ["x", 999], "cls": ["<s>", 256]}}, "adds token id 999"),
    ],
)
def test_what_asks_for_too_much_is_refused(tmp_path, parts, words):
    with pytest.raises(TokenizerError, match=words) as error:
        from_json(tmp_path, byte_json(*SPECIAL, **parts))
    assert "tokenizer.json" in str(error.value)


def test_a_word_that_is_spelled_with_escapes_is_seen_too(tmp_path):
    whole = json.dumps(byte_json(normalizer=charsmap(b"\xff" * 4)))
    for word, hidden in (("precompiled_charsmap", "precompiled_chars\\u006dap"), ("Precompiled", "\\u0050recompiled")):
        (tmp_path / "tokenizer.json").write_text(whole.replace(word, hidden, 1))
        with pytest.raises(TokenizerError, match="counts 4294967295 bytes"):
            from_raw(tmp_path)


def from_raw(directory):
    from tests.text.kit import checkpoint
    from vtcore.text import load_tokenizer

    return load_tokenizer(checkpoint(directory))


def test_what_real_tokenizers_do_is_taken(tmp_path):
    replaced = [{"type": "Replace", "pattern": {"String": old}, "content": new} for old, new in (("``", '"'), (" ", "\u2581"))]
    spaces = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
    normalizer = sequence("normalizers", *replaced, {"type": "NFKD"}, {"type": "Lowercase"}, spaces, {"type": "Prepend", "prepend": "x"})
    tokenizer = from_json(tmp_path, byte_json(*SPECIAL, normalizer=normalizer, post_processor=template(START, TEXT)))
    assert tokenizer.encode("A``") == [256, *b'xa"']


def test_the_longest_replacement_of_a_charsmap():
    assert check_charsmap(b"", "file") == 1
    assert check_charsmap(bytes(4), "file") == 1
    assert check_charsmap(b"\x04\0\0\0" + bytes(4) + b"abc\0de\0", "file") == 3
    assert check_charsmap(bytes(4) + b"x" * MOST_GROWTH, "file") == MOST_GROWTH


@pytest.mark.parametrize("steps", [[{"type": "Replace", "pattern": {"String": "b"}, "content": "bb"}] * 60,
                                   [{"type": "Replace", "pattern": {"String": ""}, "content": "x" * 9999}]])  # fmt: skip
def test_a_decoder_can_not_blow_a_token_up(tmp_path, steps):
    tokenizer = from_json(tmp_path, byte_json(decoder=sequence("decoders", *steps)))
    with pytest.raises(TokenizerError, match=r"tokenizer.json: decoder 'Replace' of b'b?' makes \d+ bytes of one token; 4096 are allowed"):
        tokenizer.decode([98])


def test_a_decoder_that_strips_without_end_comes_to_one(tmp_path):
    strip = {"type": "Strip", "content": "h", "start": 10**9, "stop": 10**9}
    assert from_json(tmp_path, byte_json(decoder=sequence("decoders", strip))).decode([*b"hah"]) == "a"


def test_dropout_is_for_training(tmp_path):
    model = byte_json()["model"]
    model |= {"vocab": {**model["vocab"], "ab": 256, "abab": 257}, "merges": ["a b", "ab ab"], "dropout": 0.5}
    tokenizer = from_json(tmp_path, byte_json(model=model))
    assert {tuple(tokenizer.encode("abab" * 8)) for _ in range(8)} == {(257,) * 8}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"chat_template": [5]}, "'chat_template' is .*a string, or a list of objects"),
        ({"chat_template": [{"name": "a", "template": "b"}, "c"]}, "'chat_template' is .*a string, or a list of objects"),
        ({"added_tokens_decoder": {"5": {"content": "q", "special": "x"}}}, "'special' of 'added_tokens_decoder.5' is 'x'; a boolean"),
    ],
)
def test_settings_are_not_half_taken(tmp_path, settings, words):
    with pytest.raises(TokenizerError, match=words):
        from_json(tmp_path, byte_json(), tokenizer_config=settings)
