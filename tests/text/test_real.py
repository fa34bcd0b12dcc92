"""The catalogue's models: ids, texts and rendered chats as transformers makes them."""

import json
from pathlib import Path
from typing import Any

import pytest

from vtcore.formats.checkpoint import open_checkpoint
from vtcore.text import Tokenizer, load_tokenizer

DATA = Path(__file__).parent.parent / "data/real"


class Real:
    """A model's tokenizer, and what was recorded of it."""

    def __init__(self, path: Path, name: str) -> None:
        self.tokenizer: Tokenizer = load_tokenizer(open_checkpoint(path))
        self.recorded: dict[str, Any] = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def smollm2(smollm2_path: Path) -> Real:
    return Real(smollm2_path, "smollm2-135m")


@pytest.fixture(scope="module")
def gemma3(gemma3_path: Path) -> Real:
    return Real(gemma3_path, "gemma3-270m")


@pytest.fixture(params=["smollm2", "gemma3"])
def real(request: pytest.FixtureRequest) -> Real:
    model: Real = request.getfixturevalue(request.param)
    return model


def test_texts_get_the_recorded_ids(real):
    for vector in real.recorded["tokenizer_vectors"]:
        assert real.tokenizer.encode(vector["text"], add_special_tokens=False) == vector["ids"]
        assert real.tokenizer.encode(vector["text"]) == vector["ids_default"]
        assert real.tokenizer.decode(vector["ids"], skip_special_tokens=False) == vector["text"]


def test_answers_get_the_recorded_texts_at_once_and_streamed(real):
    for case in real.recorded["cases"]:
        stream = real.tokenizer.stream(skip_special_tokens=False)
        assert real.tokenizer.decode(case["tokens"], skip_special_tokens=False) == case["text"]
        assert "".join([*map(stream.push, case["tokens"]), stream.finish()]) == case["text"]
        if case["first_eos"] is not None:
            assert real.tokenizer.decode(case["tokens"][: case["first_eos"]]) == case["text_until_eos"]
            assert case["tokens"][case["first_eos"]] in real.tokenizer.eos_ids


def test_conversations_get_the_recorded_prompts(smollm2):
    for case in smollm2.recorded["cases"]:
        assert smollm2.tokenizer.template().render(case["input"]) == case["rendered"]
        assert smollm2.tokenizer.encode_chat(case["input"]) == case["prompt_ids"]


def test_plain_prompts_get_the_recorded_ids(gemma3):
    assert gemma3.tokenizer.chat_template is None
    for case in gemma3.recorded["cases"]:
        assert gemma3.tokenizer.encode(case["input"]) == case["prompt_ids"]


def test_what_the_files_say_of_special_tokens(smollm2, gemma3):
    assert (smollm2.tokenizer.bos_id, smollm2.tokenizer.eos_ids, smollm2.tokenizer.vocab_size) == (1, {0, 2}, 49152)
    assert (gemma3.tokenizer.bos_id, gemma3.tokenizer.eos_ids, gemma3.tokenizer.vocab_size) == (2, {1, 106}, 262144)


def test_bos_comes_once_even_if_the_text_has_it(gemma3):
    assert gemma3.tokenizer.encode("<bos>hi") == gemma3.tokenizer.encode("hi")
    assert gemma3.tokenizer.encode("<bos>hi", add_special_tokens=False) == gemma3.tokenizer.encode("hi")


def test_runs_of_spaces_are_cut_longest_first_as_sentencepiece_does(gemma3):
    """Its longest run is of 31 spaces; transformers, which merges pairs, makes 16 and 24 of forty."""
    ids = gemma3.tokenizer.encode(" " * 40 + "x", add_special_tokens=False)
    assert [len(gemma3.tokenizer.token_bytes(i)) for i in ids] == [31, 9, 1]


def test_every_token_has_bytes(real):
    sizes = [len(real.tokenizer.token_bytes(i)) for i in range(real.tokenizer.vocab_size)]
    assert min(sizes) > 0
    assert real.tokenizer.token_bytes(real.tokenizer.vocab_size) == b""
