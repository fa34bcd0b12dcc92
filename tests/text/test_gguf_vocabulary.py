"""Vocabularies in GGUF metadata: every kind of tokenizer, its defaults, and what is wrong with a broken one."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.text.kit import BYTE, CONTROL, GGML, MARK, NORMAL, UNUSED, USER_DEFINED, bpe_metadata, from_metadata, pieces_of, spm_metadata
from vtcore.errors import TokenizerError
from vtcore.text.splits import SPLITTERS

PIECES = {
    MARK: -3.0,
    f"{MARK}text": -1.0,
    "text": -2.0,
    **dict.fromkeys("tex", -9.0),
    f"{MARK}t": -4.0,
    "te": -5.0,
    "xt": -6.0,
    "ext": -7.0,
}


def spm(**keys):
    return from_metadata(spm_metadata(PIECES, {"<pad>": CONTROL, "<eos>": CONTROL, "<b>": USER_DEFINED, "  ": USER_DEFINED}, **keys))


def test_a_space_goes_in_front_of_the_true_start_only():
    tokenizer = spm()
    assert pieces_of(tokenizer, "text") == [b" text"]
    assert pieces_of(tokenizer, "<pad>text<eos>") == [b"<pad>", b"text", b"<eos>"]
    assert pieces_of(tokenizer, "text<pad> text") == [b" text", b"<pad>", b" text"]
    assert pieces_of(spm(add_space_prefix=False), "text") == [b"text"]


@pytest.mark.parametrize("prefix", [True, False])
@pytest.mark.parametrize(
    "text", ["text", " text", "  text", "<pad>text<eos>", "<pad> text", "text <b>text", "   ", "\ntext\u00e9", "<0x41>"]
)
def test_decoding_gives_the_text_back(text, prefix):
    tokenizer = spm(add_space_prefix=prefix)
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False), skip_special_tokens=False) == text


def test_user_defined_tokens_are_matched_first_longest_first_and_stay_apart():
    tokenizer = spm(add_space_prefix=False)
    assert pieces_of(tokenizer, "te<b>xt") == [b"te", b"<b>", b"xt"]
    assert pieces_of(tokenizer, "   text") == [b"  ", b" text"]


def test_the_better_score_is_joined_first():
    """In `text`, te (-5) is better than xt (-6); without it, xt and e make ext (-7)."""
    without = {piece: score for piece, score in PIECES.items() if piece not in ("text", f"{MARK}text", f"{MARK}t")}
    tokenizer = from_metadata(spm_metadata(without, add_space_prefix=False))
    assert pieces_of(tokenizer, "text") == [b"te", b"xt"]
    tokenizer = from_metadata(spm_metadata({**without, "te": -8.0}, add_space_prefix=False))
    assert pieces_of(tokenizer, "text") == [b"t", b"ext"]


def test_letters_that_no_piece_has_are_bytes():
    tokenizer = spm(add_space_prefix=False)
    assert list(pieces_of(tokenizer, "é")) == [b"\xc3", b"\xa9"]
    assert tokenizer.encode("<0xC3>", add_special_tokens=False) != tokenizer.encode("é", add_special_tokens=False)[:1]


def test_defaults_of_a_file_that_names_no_ids_and_no_kinds():
    metadata = spm_metadata(PIECES)
    for key in ("bos_token_id", "eos_token_id", "unknown_token_id", "token_type"):
        del metadata[GGML + key]
    tokenizer = from_metadata(metadata)
    assert tokenizer.encode("text")[0] == tokenizer.bos_id == 1
    assert tokenizer.eos_ids == {2}
    assert pieces_of(tokenizer, "<s>é") == [b"<s>", b"\xc3", b"\xa9"]


def test_every_way_that_an_answer_may_end():
    metadata = bpe_metadata([], {"<|im_end|>": NORMAL, "<|eot|>": CONTROL, "<|eom|>": CONTROL, "<eos>": CONTROL, "</s>": USER_DEFINED})
    ids = {name: i for i, name in enumerate(metadata[GGML + "tokens"])}
    keys = {"eos_token_id": ids["<eos>"], "eot_token_id": ids["<|eot|>"], "eom_token_id": ids["<|eom|>"]}
    tokenizer = from_metadata({**metadata, **{GGML + key: i for key, i in keys.items()}})
    assert tokenizer.eos_ids == {ids["<|im_end|>"], ids["<|eot|>"], ids["<|eom|>"], ids["<eos>"]}
    assert tokenizer.decode([ids["<|im_end|>"]]) == ""


def test_phi3_wants_a_space_after_every_special_token_and_none_before_it():
    tokenizer = from_metadata({**spm_metadata(PIECES, {"<|user|>": CONTROL}), "general.architecture": "phi3"})
    assert pieces_of(tokenizer, "<|user|> \n text") == [b"<|user|>", b" text"]


def test_merges_may_run_through_tokens_that_are_listed_as_they_read():
    metadata = bpe_metadata(["Ġ Ġ", "ĠĠ Ġ"])
    tokens = ["  " if t == "ĠĠ" else t for t in metadata[GGML + "tokens"]]
    kinds = [USER_DEFINED if t == "  " else NORMAL for t in tokens]
    tokenizer = from_metadata({**metadata, GGML + "tokens": tokens, GGML + "token_type": kinds})
    assert pieces_of(tokenizer, "   a") == [b"  ", b" ", b"a"]


def test_a_word_that_is_a_token_may_ignore_merges():
    tokens = {"abc": NORMAL}
    assert pieces_of(from_metadata(bpe_metadata(["b c"], tokens)), "abc") == [b"a", b"bc"]
    assert pieces_of(from_metadata(bpe_metadata(["b c"], tokens, pre="llama-bpe", bos_token_id=0)), "abc") == [b"abc"]


def test_who_gets_bos():
    llama3 = bpe_metadata([], {"<bos>": CONTROL}, pre="llama-bpe", bos_token_id=256)
    assert from_metadata(llama3).encode("a") == [256, 97]
    assert from_metadata({**llama3, GGML + "add_bos_token": False}).encode("a") == [97]
    assert from_metadata({**llama3, GGML + "pre": "qwen2"}).encode("a") == [97]
    assert from_metadata({**llama3, GGML + "pre": "qwen2", GGML + "add_bos_token": True, GGML + "eos_token_id": 256}).adds_bos


def test_kimi_joins_by_the_order_of_its_ids():
    metadata = bpe_metadata([], {"bc": NORMAL, "ab": NORMAL, "abc": NORMAL}, pre="kimi-k2")
    del metadata[GGML + "merges"]
    tokenizer = from_metadata(metadata)
    assert pieces_of(tokenizer, "abc") == [b"abc"]
    assert pieces_of(tokenizer, "abx") == [b"ab", b"x"]
    assert pieces_of(tokenizer, "漢abc") == [*[bytes([b]) for b in "漢".encode()], b"abc"]


def test_gemma4_has_merges_of_plain_text():
    tokens = {"<bos>": CONTROL, **{f"<0x{b:02X}>": BYTE for b in range(256)}, **dict.fromkeys([MARK, "a", "b", f"{MARK}a", "\n"], NORMAL)}
    metadata = {
        GGML + "model": "gemma4",
        GGML + "tokens": list(tokens),
        GGML + "token_type": list(tokens.values()),
        GGML + "merges": [f"{MARK} a"],
        GGML + "bos_token_id": 0,
    }
    tokenizer = from_metadata(metadata)
    assert pieces_of(tokenizer, "a a\nbé") == [b"a", b" a", b"\n", b"b", b"\xc3", b"\xa9"]
    assert tokenizer.encode("a")[0] == 0


BERT = {
    GGML + "model": "bert",
    GGML + "tokens": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", f"{MARK}hello", f"{MARK}wor", "ld", f"{MARK}!", f"{MARK}cafe"],
    GGML + "token_type": [CONTROL, CONTROL, CONTROL, CONTROL, *[NORMAL] * 5],
    GGML + "bos_token_id": 2,
    GGML + "seperator_token_id": 3,
    GGML + "unknown_token_id": 1,
}


def test_bert_marks_words_and_gets_its_frame():
    tokenizer = from_metadata(BERT)
    assert tokenizer.encode("Hello World! Café") == [2, 4, 5, 6, 7, 8, 3]
    assert tokenizer.decode(tokenizer.encode("Hello World! Café")) == "hello world! cafe"
    assert tokenizer.encode("xyz", add_special_tokens=False) == [1]
    assert from_metadata({**BERT, GGML + "normalizer.lowercase": False}).encode("Hello hello", add_special_tokens=False) == [1, 4]


def test_unigram_takes_the_likeliest_cut():
    tokens = ["<pad>", "</s>", "<unk>", MARK, f"{MARK}ab", "a", "b", "c", "bc"]
    metadata = {
        GGML + "model": "t5",
        GGML + "tokens": tokens,
        GGML + "token_type": [CONTROL, CONTROL, 2, *[NORMAL] * 6],
        GGML + "scores": [0.0, 0.0, 0.0, -2.0, -4.0, -3.0, -3.0, -3.0, -1.0],
        GGML + "eos_token_id": 1,
    }
    tokenizer = from_metadata(metadata)
    assert [tokens[i] for i in tokenizer.encode("  abc ")] == [MARK, "a", "bc", "</s>"]
    assert tokenizer.decode(tokenizer.encode("ab  c")) == "ab c"


def test_chat_templates_have_names():
    keys = {"tokenizer.chat_template": "plain", "tokenizer.chat_template.tool_use": "tools", "tokenizer.chat_templates": ["tool_use"]}
    tokenizer = from_metadata({**bpe_metadata([]), **keys})
    assert tokenizer.chat_templates == {"default": "plain", "tool_use": "tools"}
    assert from_metadata(bpe_metadata([])).chat_template is None


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        (bpe_metadata([], pre="martian"), "'tokenizer.ggml.pre' is 'martian'; one of a.x-4.0, afmoe, bailingmoe"),
        (bpe_metadata([], model="rwkv"), "'tokenizer.ggml.model' is 'rwkv'; one of gpt2, gemma4, llama, t5, bert"),
        ({}, "lacks 'tokenizer.ggml.model'"),
        ({GGML + "model": "gpt2"}, "lacks 'tokenizer.ggml.tokens'"),
        ({**bpe_metadata([]), GGML + "tokens": []}, "'tokenizer.ggml.tokens' is .*at least one token"),
        ({**bpe_metadata([]), GGML + "tokens": [1, 2]}, "'tokenizer.ggml.tokens' is .*list of strings"),
        ({**bpe_metadata([]), GGML + "merges": "a b"}, "'tokenizer.ggml.merges' is 'a b'; a list of strings"),
        ({**bpe_metadata([]), GGML + "merges": ["ab"]}, "merge 'ab' is not two pieces"),
        ({**bpe_metadata([]), GGML + "merges": ["a QQ"]}, "model.gguf: building the tokenizer failed: .*QQ"),
        ({k: v for k, v in bpe_metadata([]).items() if "merges" not in k}, "lacks 'tokenizer.ggml.merges'"),
        (bpe_metadata([], token_type=[1]), "256 tokens have 1 kinds"),
        (bpe_metadata([], token_type=[1] * 300), "256 tokens have 300 kinds"),
        (bpe_metadata([], bos_token_id=256), "'tokenizer.ggml.bos_token_id' is 256; an integer from 0 to 255"),
        (bpe_metadata([], eos_token_id=4294967295), "'tokenizer.ggml.eos_token_id' is 4294967295; an integer from 0 to 255"),
        (bpe_metadata([], add_bos_token=True), "'tokenizer.ggml.add_bos_token' is True, but there is no 'tokenizer.ggml.bos_token_id'"),
        (bpe_metadata([], add_bos_token=1), "'tokenizer.ggml.add_bos_token' is 1; a boolean"),
        ({**bpe_metadata([]), GGML + "tokens": ["a"] * 256}, "token 'a' has the ids 0 and 255"),
        ({**spm_metadata(PIECES), GGML + "scores": [0.0]}, "tokens have 1 scores"),
        ({k: v for k, v in spm_metadata(PIECES).items() if "scores" not in k}, "this one's have none"),
        ({**spm_metadata(PIECES), GGML + "scores": [float("nan")] * (259 + len(PIECES))}, "list of finite numbers"),
        (spm_metadata({"a" * 1_000_000: -1.0}), "the longest token has 1000000 characters, .*; up to 1024"),
        (spm_metadata(PIECES, precompiled_charsmap=[1, 2, 300]), "'tokenizer.ggml.precompiled_charsmap' is .*; a list of bytes"),
        (spm_metadata(PIECES, precompiled_charsmap=[1, 2, 3]), "model.gguf: .*counts 197121 bytes of a trie, and 0 follow"),
        (spm_metadata(PIECES, precompiled_charsmap=[255] * 4), "counts 4294967295 bytes of a trie, and 0 follow"),
        ({**bpe_metadata([]), "tokenizer.chat_template": 5}, "'tokenizer.chat_template' is 5; a string"),
    ],
)
def test_what_is_wrong_is_named(metadata, words):
    with pytest.raises(TokenizerError, match=words):
        from_metadata(metadata)


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 400), st.text(max_size=3), st.lists(st.integers(-3, 300)), st.lists(st.text(max_size=2))
)


@given(
    key=st.sampled_from(sorted({**spm_metadata(PIECES), GGML + "add_bos_token": 0, GGML + "precompiled_charsmap": 0, GGML + "merges": 0})),
    value=VALUES,
)
def test_any_value_is_taken_or_refused(key, value):
    for metadata in (spm_metadata(PIECES), bpe_metadata([])):
        try:
            from_metadata({**metadata, key: value}).encode("text é <pad>")
        except TokenizerError as e:
            assert "model.gguf" in str(e)  # noqa: PT017 - it may be refused or not; if it is, the message counts


def test_unused_tokens_are_never_made_of_text():
    tokenizer = from_metadata(bpe_metadata([], {"[PAD256]": UNUSED}))
    assert tokenizer.encode("[PAD256]") != [256]
    assert tokenizer.token_bytes(256) == b"[PAD256]"


@pytest.mark.parametrize("pre", sorted(SPLITTERS))
def test_every_kind_of_words_loses_nothing(pre):
    rng = np.random.default_rng(7)
    letters = "aZé日 \n\r\t'sLL09.,!{<|ﬁ\u0301\u200d한กमा😀漢\u00a0"
    extra = {MARK: NORMAL, **{f"<0x{b:02X}>": BYTE for b in range(256)}} if SPLITTERS[pre].raw else {}
    tokenizer = from_metadata(bpe_metadata(["Ġ a"], extra, pre=pre))
    for _ in range(40):
        text = "".join(rng.choice(list(letters), size=24))
        expected = unicodedata.normalize("NFC", text) if SPLITTERS[pre].compose else text
        assert b"".join(pieces_of(tokenizer, text)).decode() == expected
