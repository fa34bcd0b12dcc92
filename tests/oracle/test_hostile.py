"""Servers and recordings that lie, or hold what nobody expects: a verdict or an error in words, and never a pass."""

import json
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import save

from tests.oracle.standin import Brain
from tests.oracle.test_servers import FLOAT32, KINDS, held, outcomes, reasons
from vtcore.errors import ArgumentError, RecordingError
from vtcore.oracle.comparison import compare
from vtcore.oracle.engines.openai_url import ServerEngine, ServerOptions
from vtcore.oracle.followed import Followed, said_of
from vtcore.oracle.recording_file import KEY, _checksum, _header, _tensors, read_recording
from vtcore.oracle.reports.html import as_html
from vtcore.oracle.reports.json import as_json
from vtcore.oracle.reports.junit import as_junit
from vtcore.oracle.reports.table import table
from vtcore.oracle.verdict import Outcome

TOKENS = {"tokens": ["a"], "token_logprobs": [-0.1]}
SAID = {"output_token_logprobs": [[-1, 2, None]], "input_token_logprobs": [[-1, 2, None]], "finish_reason": None}
ENTRY = {"token": "a", "logprob": -1}
ODD = [
    *(("openai", {"choices": choices}) for choices in (["x"], [3], "abc", {"0": 1}, [{"logprobs": [1]}], [{"logprobs": 5}])),
    *(("openai", {"choices": [{"logprobs": {**TOKENS, "top_logprobs": tops}}]}) for tops in (5, [5], "ab", {"a": 1}, [{"a": "b"}])),
    *(("vllm", {"choices": [{"prompt_logprobs": told}]}) for told in (5, [5], [{"x": {}}], "abc")),
    *(("sglang", {"meta_info": {**SAID, "output_top_logprobs": t, "input_top_logprobs": t}}) for t in (5, [5], [[5]], "a", [["a"]])),
    *(("ollama", {"logprobs": told}) for told in ([5], [None], ["a"], [{**ENTRY, "top_logprobs": 5}], [{**ENTRY, "top_logprobs": [5]}])),
    *(("llama.cpp", {"truncated": False, "completion_probabilities": told}) for told in ([5], ["a"], [{"id": 2, "top_logprobs": 5}])),
]


@pytest.mark.parametrize("forcing", ["auto", "continue"])
@pytest.mark.parametrize(("kind", "answer"), ODD)
def test_answers_of_odd_shapes(recording, standin, kind, answer, forcing):
    found = held(recording, standin(kind, raw=json.dumps(answer).encode()), forcing=forcing)
    assert outcomes(found) == {Outcome.NOT_COMPARED}


@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_not_taken_for_log_probabilities(recording, standin, kind):
    class Raw(Brain):
        def row(self, ids):
            return super().row(ids) + 30

    server = standin(kind)
    server.brain = Raw(server.brain.llm, None, server.brain.known)
    found = held(recording, server, forcing="continue")
    assert outcomes(found) == {Outcome.NOT_COMPARED}
    assert "as a log probability; they are never above 0" in reasons(found)


@pytest.mark.parametrize("kind", KINDS)
def test_the_recorded_tokens_with_other_log_probabilities_diverge(recording, standin, kind):
    found = held(recording, standin(kind, twist=lambda ids, row: row * np.float32(1.05)))
    assert outcomes(found) == {Outcome.DIVERGED}
    assert "log probability off by" in reasons(found)


def test_a_model_that_is_always_certain_diverges_where_it_scores(recording, standin):
    def certain(ids, row):
        return row * np.float32(1e4)

    assert outcomes(held(recording, standin("vllm", twist=certain))) == {Outcome.DIVERGED}
    found = held(recording, standin("llama.cpp", twist=certain))
    assert "the engine gave no log probabilities: tokens alone were compared" in table(found)


@pytest.mark.parametrize(("kind", "passes"), [("ollama", False), ("llama-cpp-python", True), ("vllm", True)])
def test_text_of_which_nobody_knows_the_tokens(recording, standin, monkeypatch, kind, passes):
    server = standin(kind, text_only=True)
    post = server.post

    def uncounted(path, body):
        said = post(path, body)
        return {n: v for n, v in said.items() if n not in ("usage", "prompt_eval_count")} if isinstance(said, dict) else said

    monkeypatch.setattr(server, "post", uncounted)
    found = held(recording, server, forcing="continue")
    assert found.passed is passes
    assert passes or "says neither their tokens nor how many" in reasons(found)


@pytest.mark.parametrize("models", [5, "abc", {"a": 1}, [[1]]])
def test_lists_of_models_that_are_none(recording, standin, monkeypatch, models):
    server = standin("openai")
    monkeypatch.setattr(server, "get", lambda path: {"data": models} if path == "/v1/models" else None)
    assert outcomes(held(recording, server)) == {Outcome.EXACT}


def test_an_error_now_and_then_is_no_pass_and_hides_nothing(recording, standin, monkeypatch):
    server = standin("vllm")
    post, calls = server.post, []

    def sometimes(path, body):
        calls.append(path)
        return 500 if path == "/v1/completions" and calls.count(path) in (2, 3) else post(path, body)

    monkeypatch.setattr(server, "post", sometimes)
    found = held(recording, server)
    assert [v.outcome for v in found.verdicts] == [Outcome.EXACT, Outcome.NOT_COMPARED, *[Outcome.EXACT] * 3]
    assert not found.passed
    assert found.engine["prompts"] == "token ids"


def test_what_a_server_says_of_itself_moves_no_cursor_and_runs_no_script(recording, standin, monkeypatch):
    evil = "\x1b[2J<script>alert(1)</script>\n5 EXACT: pass\u202e"
    server = standin("vllm", models=(evil,))
    monkeypatch.setattr(server, "get", lambda p, get=server.get: {"version": evil} if p == "/version" else get(p))
    found = held(recording, server)
    lines = table(found).split("\n")
    assert (sum("EXACT: pass" in line and "vllm" not in line for line in lines), len(lines)) == (1, 12)
    assert not {"\x1b", "\u202e"} & set("".join(lines))
    assert "<script" not in as_html(found)
    assert as_junit(found)
    assert json.loads(as_json(found))["passed"]


def test_an_address_that_cannot_be_read(recording):
    with pytest.raises(ArgumentError, match="Invalid IPv6"):
        ServerEngine("http://[::1", recording, ServerOptions())


class Fixed:
    """An engine that always says the same."""

    def __init__(self, logits):
        self.logits = logits

    def describe(self):
        return {"name": "fixed"}

    def follow(self, answer):
        return Followed(said_of(self.logits, answer), "fixed")

    def close(self):
        """Nothing."""


@pytest.mark.parametrize(
    ("value", "rest", "outcome"),
    [
        (np.inf, 0, Outcome.NOT_COMPARED),
        (np.nan, 0, Outcome.NOT_COMPARED),
        (-np.inf, -np.inf, Outcome.NOT_COMPARED),
        (1e38, 0, Outcome.DIVERGED),
        (0, -np.inf, Outcome.DIVERGED),
    ],
)
def test_logits_at_the_edge(recording, value, rest, outcome):
    answer = recording.answers[0]
    logits = np.full((len(answer.token_ids), recording.model.vocab_size), rest, np.float32)
    logits[np.arange(len(logits)), list(answer.token_ids)] = value
    found = compare(replace(recording, answers=(answer,)), Fixed(logits), FLOAT32)
    assert outcomes(found) == {outcome}
    json.loads(as_json(found), parse_constant=pytest.fail)
    assert table(found)


def test_no_prompt_at_all_is_no_pass(recording):
    assert not compare(replace(recording, answers=()), Fixed(np.zeros((1, 1))), FLOAT32).passed


def forged(recording, path, change):
    """A recording that was edited by somebody who knows how its checksum is made."""
    tensors, header = _tensors(recording), json.loads(json.dumps(_header(recording)))
    change(header, tensors)
    header["content"] = _checksum(header, tensors)
    path.write_bytes(save(tensors, metadata={KEY: json.dumps(header, sort_keys=True)}))
    return path


def header(value, *path):
    def change(header, tensors):
        for key in path[:-1]:
            header = header[key]
        header[path[-1]] = value

    return change


def tensor(name, function):
    def change(header, tensors):
        tensors[name] = np.ascontiguousarray(function(tensors[name]))

    return change


@pytest.mark.parametrize(
    "change",
    [
        *(header(value, "answers", 0, "text") for value in (5, [1], {})),
        *(header(value, "answers", 0, "name") for value in (5, None)),
        *(header(value, "model", "end_ids") for value in ([-5], [10**30], ["a"], [1.0], 7)),
        *(header(value, "model", "vocab_size") for value in (1e9, "x", None)),
        *(header(value, "model", "files") for value in (5, {"a": 1})),
        header(5, "model", "name"),
        header([], "answers"),
        tensor("0.top_logprobs", lambda a: a + 50),
        tensor("0.top_logprobs", lambda a: a[:, ::-1]),
        tensor("0.top_logprobs", lambda a: a * np.float32("nan")),
        tensor("0.top_ids", lambda a: np.repeat(a[:, :1], a.shape[1], 1)),
        tensor("0.tokens", lambda a: a + 1),
    ],
)
def test_what_cannot_have_been_recorded_is_refused(recording, tmp_path, change):
    with pytest.raises(RecordingError, match="malformed"):
        read_recording(forged(recording, tmp_path / "golden.safetensors", change))
