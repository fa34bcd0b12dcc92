"""Tokenizers in a model's directory: each kind of file, what the settings beside it say, and broken ones."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.text.kit import added, bos_processor, byte_json, checkpoint, from_json
from vtcore.errors import TokenizerError
from vtcore.text import load_tokenizer

SPECIAL = (added(256, "<s>", special=True), added(257, "</s>", special=True), added(258, "<|end|>", special=True))
RANKS = [bytes([b]) for b in range(256)] + [b"ab", b"bc", b"abc", "é".encode()]
UNIGRAM = {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -1.0]]}


def test_names_may_be_strings_or_objects_and_ends_add_up(tmp_path):
    files = {"tokenizer_config": {"eos_token": {"content": "</s>"}}, "special_tokens_map": {"bos_token": "<s>", "eos_token": "<s>"}}
    tokenizer = from_json(tmp_path, byte_json(*SPECIAL), {"eos_token_id": 5}, {"eos_token_id": [258]}, **files)
    assert (tokenizer.bos_id, tokenizer.eos_ids) == (256, {257, 258})
    assert tokenizer.special.names == {"bos_token": "<s>", "eos_token": "</s>"}


def test_without_a_generation_config_the_config_counts(tmp_path):
    assert from_json(tmp_path, byte_json(*SPECIAL), {"eos_token_id": [257, 258], "bos_token_id": 256}).eos_ids == {257, 258}


def test_without_settings_the_config_names_bos(tmp_path):
    tokenizer = from_json(tmp_path, byte_json(*SPECIAL), {"eos_token_id": 257, "bos_token_id": 256})
    assert (tokenizer.bos_id, tokenizer.special.names) == (256, {"bos_token": "<s>", "eos_token": "</s>"})


@pytest.mark.parametrize(("said", "ids"), [({}, [256, 97]), ({"add_bos_token": False}, [97]), ({"add_eos_token": True}, [97, 257])])
def test_what_the_settings_say_of_bos_and_eos_wins(tmp_path, said, ids):
    settings = {"bos_token": "<s>", "eos_token": "</s>", **said}
    tokenizer = from_json(tmp_path, byte_json(*SPECIAL, post_processor=bos_processor("<s>", 256)), tokenizer_config=settings)
    assert tokenizer.encode("a") == ids


def test_a_token_that_only_the_settings_call_special_is_matched_and_skipped(tmp_path):
    model = {**byte_json()["model"], "vocab": {**byte_json()["model"]["vocab"], "<end>": 256}}
    tokenizer = from_json(tmp_path, byte_json(model=model), tokenizer_config={"eos_token": "<end>", "pad_token": "<none>"})
    assert tokenizer.encode("a<end>") == [97, 256]
    assert tokenizer.decode([97, 256]) == "a"
    assert (tokenizer.vocab_size, tokenizer.eos_ids) == (257, {256})


def test_padding_and_truncation_of_the_file_are_not_done(tmp_path):
    padding = {"strategy": {"Fixed": 8}, "direction": "Left", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "!"}
    truncation = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    tokenizer = from_json(tmp_path, byte_json(padding=padding, truncation=truncation))
    assert tokenizer.encode("abc") == [97, 98, 99]


def test_template_files_win_over_settings(tmp_path):
    assert from_json(tmp_path, byte_json(), tokenizer_config={"chat_template": "a"}).chat_template == "a"
    assert from_json(tmp_path, byte_json(), chat_template={"chat_template": "b"}).chat_template == "b"
    (tmp_path / "chat_template.jinja").write_text("c")
    more = tmp_path / "additional_chat_templates"
    more.mkdir()
    (more / "rag.jinja").write_text("d")
    assert from_json(tmp_path, byte_json()).chat_templates == {"default": "c", "rag": "d"}


def tiktoken_file(ranks=RANKS):
    return b"\n".join(base64.b64encode(token) + b" %d" % rank for rank, token in enumerate(ranks))


@pytest.mark.parametrize("name", ["qwen.tiktoken", "tiktoken.model", "tokenizer.model"])
def test_tiktoken_files(tmp_path, name):
    (tmp_path / name).write_bytes(tiktoken_file())
    rows = {"260": {"content": "<|end|>", "special": True}, "261": {"content": "<think>", "special": False}}
    settings = {"tokenizer_class": "TikTokenTokenizer", "eos_token": "<|end|>", "added_tokens_decoder": rows}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    tokenizer = load_tokenizer(checkpoint(tmp_path))
    ids = tokenizer.encode("abcé<|end|><think>")
    assert ids == [258, 259, 260, 261]
    assert tokenizer.decode(ids) == "abcé<think>"
    assert (tokenizer.token_bytes(0xC3), tokenizer.vocab_size, tokenizer.eos_ids) == (b"\xc3", 262, {260})
    assert [tokenizer.stream().push(i) for i in (0xC3, 258)] == ["", "abc"]


def test_qwen_has_its_special_tokens_without_being_told(tmp_path):
    (tmp_path / "qwen.tiktoken").write_bytes(tiktoken_file())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "QWenTokenizer"}))
    tokenizer = load_tokenizer(checkpoint(tmp_path))
    assert tokenizer.encode("<|im_start|>ab12<|im_end|>") == [261, 256, 49, 50, 262]
    assert tokenizer.eos_ids == {260}


TEKKEN = {
    "config": {"pattern": r"\p{L}+|[^\p{L}]", "default_num_special_tokens": 4, "default_vocab_size": 4 + len(RANKS) - 1},
    "vocab": [{"rank": r, "token_bytes": base64.b64encode(t).decode()} for r, t in enumerate(RANKS)],
    "special_tokens": [{"rank": 1, "token_str": "<s>"}, {"rank": 2, "token_str": "</s>"}, {"rank": 3, "token_str": "[INST]"}],
}


def test_tekken_puts_special_tokens_first_and_leaves_out_what_is_behind_its_size(tmp_path):
    (tmp_path / "tekken.json").write_text(json.dumps(TEKKEN))
    tokenizer = load_tokenizer(checkpoint(tmp_path))
    assert tokenizer.encode("[INST]abc é") == [1, 3, 4 + 258, 4 + 32, 4 + 0xC3, 4 + 0xA9]
    assert tokenizer.decode([1, 3, 4 + 258, 4 + 0xC3, 4 + 0xA9, 2]) == "abcé"
    assert (tokenizer.vocab_size, tokenizer.bos_id, tokenizer.eos_ids) == (4 + 259, 1, {2})
    assert tokenizer.token_bytes(0) == b"<SPECIAL_0>"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"config": 1}, "'config' is 1; an object"),
        ({"config": {}}, "lacks 'default_num_special_tokens'"),
        ({"config": {**TEKKEN["config"], "default_vocab_size": 1}}, "'default_vocab_size' is 1; an integer from 4"),
        ({"vocab": [1]}, "'vocab' is \\[1\\]; a list of objects"),
        ({"vocab": [{"rank": 0, "token_bytes": "?"}]}, "'token_bytes' is '\\?'; base64"),
        ({"vocab": TEKKEN["vocab"][1:]}, "1 of the 256 single bytes have no rank, the first of them 0"),
        ({"vocab": [*TEKKEN["vocab"][:256], {"rank": 5, "token_bytes": "YWI="}]}, "id 9 belongs to b'.x05' and to b'ab'"),
        ({"special_tokens": [{"rank": 4, "token_str": "x"}]}, "'rank' is 4; an integer from 0 to 3"),
        ({"config": {**TEKKEN["config"], "pattern": "("}}, "building the tokenizer failed"),
    ],
)
def test_a_broken_tekken_file_is_refused_by_name(tmp_path, change, words):
    (tmp_path / "tekken.json").write_text(json.dumps({**TEKKEN, **change}))
    with pytest.raises(TokenizerError, match=words) as caught:
        load_tokenizer(checkpoint(tmp_path))
    assert "tekken.json" in str(caught.value)


@pytest.mark.parametrize(
    ("raw", "settings", "words"),
    [
        (tiktoken_file()[:-3] + b"x", {"tokenizer_class": "QWenTokenizer"}, "line 260: .* is not a token in base64 and its rank"),
        (tiktoken_file() + b"\nYWI= 7", {"tokenizer_class": "QWenTokenizer"}, "line 261: .*a token comes twice"),
        (tiktoken_file(RANKS[:255]), {"tokenizer_class": "QWenTokenizer"}, "the first of them 255"),
        (
            tiktoken_file(),
            {"tokenizer_class": "MyTokenizer"},
            "no pattern is known for tokenizer_class 'MyTokenizer' and model_type None; known are",
        ),
        (b"\x00\x01", {"tokenizer_class": "QWenTokenizer"}, "line 1: .* is not a token in base64 and its rank"),
    ],
)
def test_a_broken_tiktoken_file_is_refused_by_name(tmp_path, raw, settings, words):
    (tmp_path / "qwen.tiktoken").write_bytes(raw)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(TokenizerError, match=words) as caught:
        load_tokenizer(checkpoint(tmp_path))
    assert "qwen.tiktoken" in str(caught.value)


def test_no_tokenizer_says_what_was_looked_for(tmp_path):
    with pytest.raises(TokenizerError, match=r"holds no tokenizer: looked for tokenizer.json, tekken.json"):
        load_tokenizer(checkpoint(tmp_path))


def changed(**parts):
    return {**byte_json(), **parts}


CHARSMAP = {"type": "Precompiled", "precompiled_charsmap": "CAAAAP//////////YWJj"}
SPLIT = {"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Isolated", "invert": False}
LATE = {"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "ByteFallback"}]}


@pytest.mark.parametrize(
    ("tokenizer", "words"),
    [
        ([], "invalid type: sequence"),
        ({"version": "1.0"}, "Model missing"),
        (changed(model=None), "did not match any variant"),
        (changed(model={"type": "BPE", "vocab": {"a": -1}, "merges": []}), "expected u32"),
        (changed(model={"type": "BPE", "vocab": {"a": 1 << 32}, "merges": []}), "expected u32"),
        (
            changed(model={"type": "BPE", "vocab": {"a": (1 << 32) - 1}, "merges": []}),
            "token id 4294967295 is too high; ids up to 16777215",
        ),
        (changed(model={"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}), "`b` out of vocabulary"),
        (changed(model={"type": "BPE", "vocab": {"a": 0}, "merges": ["ab"]}), "Merges text file invalid"),
        (
            changed(model={"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"], "continuing_subword_prefix": "##"}),
            "inside",
        ),
        (changed(model={"type": "BPE", "vocab": {}, "merges": []}), "holds no tokens"),
        (changed(model={**UNIGRAM, "unk_id": 7}), "UnkIdNotInVocabulary"),
        (changed(model={**UNIGRAM, "vocab": []}), "EmptyVocabulary"),
        (changed(normalizer=CHARSMAP), "tokenizers library|failed"),
        (changed(pre_tokenizer=SPLIT), "failed"),
        (changed(post_processor={**bos_processor("<s>", 5), "special_tokens": {}}), "failed"),
        (
            changed(decoder={"type": "CTC", "pad_token": "-", "word_delimiter_token": "|", "cleanup": True}),
            "decoder 'CTC' is not known; ByteLevel",
        ),
        (changed(decoder=LATE), "decoder 'ByteFallback' after 'Fuse' is not known"),
    ],
)
def test_a_broken_tokenizer_json_is_refused_by_name(tmp_path, tokenizer, words):
    with pytest.raises(TokenizerError, match=words) as caught:
        from_json(tmp_path, tokenizer).encode("ab")
    assert "tokenizer.json" in str(caught.value)


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff\xfe", b'{"model":' + b"[" * 100_000, json.dumps(byte_json()).encode()[:-40]])
def test_what_is_no_json_is_refused(tmp_path, raw):
    (tmp_path / "tokenizer.json").write_bytes(raw)
    with pytest.raises(TokenizerError, match=r"tokenizer\.json"):
        load_tokenizer(checkpoint(tmp_path))


def test_a_pattern_that_takes_forever_ends_with_an_error(tmp_path):
    bomb = {**SPLIT, "pattern": {"Regex": "(a+)+$"}}
    tokenizer = from_json(tmp_path, byte_json(pre_tokenizer=bomb))
    with pytest.raises(TokenizerError, match=r"encoding a text failed inside the tokenizers library: .*retry-limit"):
        tokenizer.encode("a" * 28 + "b")


@pytest.mark.parametrize(
    ("stem", "value", "words"),
    [
        ("tokenizer_config", [], "tokenizer_config.json holds .*a JSON object is needed"),
        ("tokenizer_config", {"eos_token": 5}, "'eos_token' is 5; a string, or an object with a 'content'"),
        ("tokenizer_config", {"eos_token": {"text": "x"}}, "'eos_token' is "),
        ("tokenizer_config", {"add_bos_token": "yes"}, "'add_bos_token' is 'yes'; a boolean"),
        ("tokenizer_config", {"added_tokens_decoder": {"x": "y"}}, "'added_tokens_decoder' is "),
        ("tokenizer_config", {"added_tokens_decoder": {"99999999": "y"}}, "'added_tokens_decoder' is .*up to 16777215"),
        ("tokenizer_config", {"added_tokens_decoder": {"5": 5}}, "'added_tokens_decoder.5' is 5"),
        ("tokenizer_config", {"chat_template": [{"name": "default"}]}, "lacks 'template'"),
        ("special_tokens_map", {"bos_token": []}, "special_tokens_map.json: 'bos_token' is"),
    ],
)
def test_broken_settings_are_refused_by_file_and_key(tmp_path, stem, value, words):
    with pytest.raises(TokenizerError, match=words):
        from_json(tmp_path, byte_json(), **{stem: value})


@pytest.mark.parametrize("ids", ["5", [True], -1, 1.5, [1 << 40]])
def test_ends_of_the_wrong_type_are_refused(tmp_path, ids):
    with pytest.raises(TokenizerError, match="'eos_token_id' is"):
        from_json(tmp_path, byte_json(), {}, {"eos_token_id": ids})


PARTS = sorted(byte_json())
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 1 << 33), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["type", "vocab", "merges", "a"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(part=st.sampled_from(PARTS), value=VALUES)
def test_any_value_in_a_tokenizer_json_is_taken_or_refused(tmp_path_factory, part, value):
    directory = tmp_path_factory.getbasetemp()
    try:
        from_json(directory, {**byte_json(), part: value}).encode("ab é")
    except TokenizerError as e:
        assert "tokenizer.json" in str(e)  # noqa: PT017 - it may be refused or not; if it is, the message counts
