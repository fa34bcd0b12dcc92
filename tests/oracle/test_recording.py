"""Recordings: what goes in comes out, what was changed is refused, and prompts in every form."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save_file

from tests.oracle.conftest import PROMPTS
from vtcore import LLM
from vtcore.errors import ArgumentError, RecordingError
from vtcore.oracle.engines.recording import RecordedEngine
from vtcore.oracle.prompts import Prompt, read_prompts
from vtcore.oracle.record import record
from vtcore.oracle.recording_file import KEY, read_recording, write_recording


def test_what_is_recorded_is_what_the_model_says(model, recording):
    with LLM(model, providers="reference") as llm:
        for prompt, answer in zip(PROMPTS, recording.answers, strict=True):
            text = f"[user]{prompt[0]['content']}[assistant]" if isinstance(prompt, list) else prompt
            assert (answer.text, list(answer.prompt_token_ids)) == (text, llm.tokenizer.encode(text))
            row = llm.logits(answer.forced)[len(answer.prompt_token_ids) - 1 :].astype(np.float64)
            assert row.argmax(-1).tolist() == list(answer.token_ids)
            logprobs = row - np.log(np.exp(row).sum(-1, keepdims=True))
            np.testing.assert_allclose(np.take_along_axis(logprobs, answer.top_ids, -1), answer.top_logprobs, atol=1e-5)
            best = np.sort(row, -1)
            np.testing.assert_allclose(answer.margins, best[:, -1] - best[:, -2], atol=1e-5)


def test_a_recording_says_what_made_it(recording):
    assert {"name": "vtcore", "numerics": "exact", "dtype": "float32", "providers": "reference", "max_tokens": "6"}.items() <= dict(
        recording.engine
    ).items()
    assert set(recording.model.files) == {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert (recording.model.architecture, recording.model.vocab_size, recording.model.end_ids) == ("Llama", 257, (256,))


def same(a, b):
    assert (a.model, dict(a.engine), dict(a.pieces)) == (b.model, dict(b.engine), dict(b.pieces))
    for x, y in zip(a.answers, b.answers, strict=True):
        assert (x.name, x.text, x.special, x.prompt_token_ids, x.token_ids, x.finish_reason) == (
            y.name, y.text, y.special, y.prompt_token_ids, y.token_ids, y.finish_reason,
        )  # fmt: skip
        np.testing.assert_array_equal(x.top_ids, y.top_ids)
        np.testing.assert_array_equal(x.top_logprobs, y.top_logprobs)
        assert (x.hidden is None) == (y.hidden is None)
        if x.hidden is not None:
            np.testing.assert_array_equal(x.hidden, y.hidden)


def test_a_file_holds_all_of_it(recording, hidden, tmp_path):
    for made in (recording, hidden[0]):
        write_recording(made, tmp_path / "a.safetensors")
        same(read_recording(tmp_path / "a.safetensors"), made)
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]


def test_hidden_states_are_every_layers_output_and_change_nothing(model, hidden):
    from vtcore.formats.checkpoint import open_checkpoint
    from vtcore.models.load import load_model

    made, engine = hidden
    answer = made.answers[0]
    with LLM(model, providers="reference", capture=False) as llm:
        np.testing.assert_array_equal(llm.logits(answer.forced), engine.llm.logits(answer.forced))
        engine.observed.take()
    layers = load_model(open_checkpoint(model)).config.layers
    assert answer.hidden.shape == (layers, len(answer.forced), 32)
    assert np.abs(answer.hidden[1] - answer.hidden[0]).max() > 1e-3


def rewritten(path, change):
    """The file with another header or other tensors, its checksum left as it was."""
    with safe_open(path, "numpy") as file:
        header = json.loads(file.metadata()[KEY])
        tensors = {n: file.get_tensor(n) for n in file.keys()}  # noqa: SIM118 - it has no iterator
    change(header, tensors)
    save_file(tensors, path, metadata={KEY: json.dumps(header)})


@pytest.mark.parametrize(
    "change",
    [
        lambda h, t: h["model"].update(name="another"),
        lambda h, t: t["0.top_logprobs"].__setitem__((0, 0), -1.0),
        lambda h, t: t.pop("1.tokens"),
        lambda h, t: h["answers"].pop(),
    ],
    ids=["header", "number", "tensor", "answer"],
)
def test_a_changed_file_is_refused(saved, change):
    rewritten(saved, change)
    with pytest.raises(RecordingError, match="was changed since it was recorded"):
        read_recording(saved)


def test_a_later_version_is_refused(saved):
    rewritten(saved, lambda h, t: h.update(version=2))
    with pytest.raises(RecordingError, match="version 2; this vtcore reads version 1"):
        read_recording(saved)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"token_ids": (1, 2)}, "alternatives"),
        ({"prompt_token_ids": ()}, "prompt"),
        ({"prompt_token_ids": (257,)}, "the vocabulary has 257"),
        ({"top_ids": np.zeros((6, 4), np.int32)}, "the first of its alternatives"),
        ({"top_logprobs": np.full((6, 4), np.nan, np.float32)}, "must be numbers"),
        ({"hidden": np.zeros((2, 3, 4), np.float32)}, "hidden has shape"),
    ],
)
def test_a_recording_that_makes_no_sense_is_refused(recording, tmp_path, change, words):
    wrong = replace(recording, answers=(replace(recording.answers[0], **change),))
    write_recording(wrong, tmp_path / "a.safetensors")
    with pytest.raises(RecordingError, match=words):
        read_recording(tmp_path / "a.safetensors")


def test_what_is_no_recording(tmp_path):
    with pytest.raises(RecordingError, match="there is no recording"):
        read_recording(tmp_path / "none")
    save_file({"x": np.zeros(3, np.float32)}, tmp_path / "x")
    with pytest.raises(RecordingError, match="no recording: its header has no"):
        read_recording(tmp_path / "x")


@settings(max_examples=40)
@given(st.data())
def test_damage_is_an_error_and_nothing_else(saved_bytes, data):
    raw, path = saved_bytes
    broken = bytearray(raw)
    if data.draw(st.booleans()):
        del broken[data.draw(st.integers(0, len(raw) - 1)) :]
    else:
        broken[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(broken)
    with pytest.raises(RecordingError):
        read_recording(path)


@pytest.fixture(scope="module")
def saved_bytes(recording, tmp_path_factory):
    path = tmp_path_factory.mktemp("damage") / "a.safetensors"
    write_recording(recording, path)
    return path.read_bytes(), path


def test_prompts_in_every_form(tmp_path):
    lines = ['"hi"', '{"prompt": "ho"}', '{"messages": [{"role": "user", "content": "hu"}]}', "", '{"prompt_token_ids": [1, 2]}', "[3]"]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    (tmp_path / "a.txt").write_text("one\n\n two words \n")
    talk = [{"role": "user", "content": "hu"}]
    assert read_prompts(tmp_path / "a.jsonl") == [
        Prompt("1 hi", "hi"), Prompt("2 ho", "ho"), Prompt("3 hu", talk), Prompt("5", [1, 2]), Prompt("6", [3]),
    ]  # fmt: skip
    assert read_prompts(tmp_path / "a.txt") == [Prompt("1 one", "one"), Prompt("3 two words", " two words ")]
    assert read_prompts(tmp_path / "a.txt", chat=True)[0].value == [{"role": "user", "content": "one"}]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "holds 0 prompts"),
        ("{", "line 1 is not JSON"),
        ('"a"\n{"text": "b"}', "line 2 has none of"),
        ('{"prompt": "a", "messages": []}', "has prompt, messages of"),
        ("[]", "holds \\[\\]"),
        ("[true]", "holds \\[True\\]"),
        ("[-1]", "holds \\[-1\\]"),
        ('[{"role": "user"}]', "list of messages with role and content"),
        ("3", "holds 3"),
        ('""', "holds ''"),
    ],
)
def test_what_is_no_prompt_is_named(tmp_path, text, words):
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    with pytest.raises(ArgumentError, match=words):
        read_prompts(path)


def test_a_file_of_prompts_that_is_none(tmp_path):
    with pytest.raises(ArgumentError, match="there is no file of prompts"):
        read_prompts(tmp_path / "none.txt")
    (tmp_path / "a.txt").write_bytes(b"\xff")
    with pytest.raises(ArgumentError, match="not UTF-8"):
        read_prompts(tmp_path / "a.txt")


def test_a_text_needs_a_tokenizer_and_numbers_a_range(recording):
    with pytest.raises(ArgumentError, match="no tokenizer"):
        record((recording.model, None), [Prompt("1", "hi")], RecordedEngine(recording))
    with pytest.raises(ArgumentError, match="alternatives is 1; it must be from 2"):
        record((recording.model, None), [Prompt("1", [1])], RecordedEngine(recording), alternatives=1)


def test_a_line_of_prompts_ends_where_an_editor_says_so(tmp_path):
    text = "one\u2028two\u0085three\x0bfour"
    (tmp_path / "p.jsonl").write_text("\ufeff" + json.dumps({"prompt": text}, ensure_ascii=False) + '\r\n{"prompt": "b"}', encoding="utf-8")
    assert [p.value for p in read_prompts(tmp_path / "p.jsonl")] == [text, "b"]
    (tmp_path / "p.txt").write_text(text + "\r\n\nb\n", encoding="utf-8")
    assert [p.value for p in read_prompts(tmp_path / "p.txt")] == [text, "b"]
