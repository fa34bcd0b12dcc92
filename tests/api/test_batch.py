"""A batch's files: every answer once, whatever kills the run; nothing computed for files that are wrong."""

import errno
import json
import os
import subprocess
import sys
import time
from unittest.mock import AsyncMock

import pytest

from tests.gate import Gate
from tests.patience import SECONDS
from vtcore.api import batch as run_batch_module
from vtcore.api.batch import run_batch
from vtcore.api.batch_output import BatchOutput
from vtcore.cli import main
from vtcore.errors import ArgumentError, VtcoreError

CHAT = "/v1/chat/completions"


def line(i, url=CHAT, **body):
    asked = {"temperature": 0, "max_tokens": 4, **({"messages": [{"role": "user", "content": f"question {i}"}]} if url == CHAT else {})}
    return {"custom_id": f"q{i}", "method": "POST", "url": url, "body": asked | body}


def write(path, lines):
    path.write_text("".join(json.dumps(entry) + "\n" for entry in lines))
    return path


def read(path):
    return [json.loads(raw) for raw in path.read_bytes().splitlines()]


@pytest.fixture
def batch(served, tmp_path):
    def run(lines):
        source, seen = write(tmp_path / "in", lines), []
        outcome = served(lambda service: run_batch(service, source, tmp_path / "out", 4, lambda *counts: seen.append(counts)))
        assert not outcome.failed
        return outcome.refused, read(tmp_path / "out"), seen

    return run


def test_every_request_is_answered_once(batch):
    failed, answers, seen = batch([line(i) for i in range(10)] + [line(10, "/v1/completions", prompt="abc")])
    assert failed == 0
    assert sorted(a["custom_id"] for a in answers) == sorted(f"q{i}" for i in range(11))
    assert all(a["error"] is None and a["response"]["status_code"] == 200 for a in answers)
    assert all(a["response"]["body"]["choices"][0]["finish_reason"] for a in answers)
    assert (seen[0], seen[-1]) == ((0, 11), (11, 11))


def test_one_that_is_refused_says_why_and_the_others_are_answered(batch):
    failed, answers, _ = batch([line(0), line(1, n=0), line(2, model="another"), line(3)])
    told = {a["custom_id"]: (a["response"]["status_code"], a["error"]) for a in answers}
    assert failed == 2
    assert told["q0"] == told["q3"] == (200, None)
    assert told["q1"][0] == 400
    assert "n: " in told["q1"][1]["message"]
    assert told["q2"] == (404, {"code": "404", "message": "there is no model 'another'; there is tiny, also-tiny"})


def test_a_second_run_asks_what_has_no_answer(batch):
    _, first, _ = batch([line(i) for i in range(3)])
    _, second, seen = batch([line(i) for i in range(5)])
    assert second[:3] == first
    assert (seen[0], len(second)) == ((3, 5), 5)


def test_half_a_line_is_cut_off(batch, tmp_path):
    batch([line(i) for i in range(3)])
    out = tmp_path / "out"
    out.write_text(out.read_text()[:-20])
    _, answers, seen = batch([line(i) for i in range(3)])
    assert seen[0] == (2, 3)
    assert sorted(a["custom_id"] for a in answers) == ["q0", "q1", "q2"]


def failing(llm, monkeypatch, falls):
    """Steps raise where `falls` says so of one of the requests in them."""
    run = llm.engine.runner.run

    def fall(step):
        if any(falls(s.request.params) for s in step.plan.scheduled):
            raise RuntimeError("a kernel fell over")
        return run(step)

    monkeypatch.setattr(llm.engine.runner, "run", fall)


def test_a_fault_of_the_engine_is_no_answer_and_takes_nobody_along(served, llm, tmp_path, monkeypatch):
    source, out, seen = write(tmp_path / "in", [line(0), line(1, max_tokens=5), line(2), line(3)]), tmp_path / "out", []

    def run():
        return served(lambda service: run_batch(service, source, out, 4, lambda *counts: seen.append(counts)))

    with monkeypatch.context() as faulty:
        failing(llm, faulty, lambda params: params.max_tokens == 5)
        outcome = run()
    assert outcome == (0, {"q1": "the engine failed: RuntimeError"})
    assert sorted(a["custom_id"] for a in read(out)) == ["q0", "q2", "q3"]
    assert seen[-1] == (3, 4)
    assert run() == (0, {})
    assert [a["custom_id"] for a in read(out)][3:] == ["q1"]
    assert all(a["response"]["status_code"] == 200 for a in read(out))


def test_a_fault_that_passes_is_not_seen(served, llm, tmp_path, monkeypatch):
    source, falls = write(tmp_path / "in", [line(i) for i in range(3)]), iter([False, True])
    failing(llm, monkeypatch, lambda params: next(falls, False))
    assert served(lambda service: run_batch(service, source, tmp_path / "out", 4, lambda *_: None)) == (0, {})
    assert len(read(tmp_path / "out")) == 3


def test_the_command_names_who_has_no_answer(model, tmp_path, capsys, monkeypatch):
    failed = run_batch_module.Outcome(2, {"q7": "the engine failed: RuntimeError", "q8": "the same"})
    monkeypatch.setattr(run_batch_module, "run_batch", AsyncMock(return_value=failed))
    assert main(["run-batch", str(model), str(write(tmp_path / "in", [line(0)])), str(tmp_path / "out")]) == 1
    told = capsys.readouterr().err
    assert "2 requests were refused" in told
    assert "2 have no answer, the first 'q7': the engine failed: RuntimeError; the same command asks them again" in told


def test_a_disk_that_is_full_ends_the_run_and_the_next_one_goes_on(served, tmp_path, monkeypatch):
    source, out, write_some = write(tmp_path / "in", [line(i) for i in range(3)]), tmp_path / "out", os.write

    def run():
        return served(lambda service: run_batch(service, source, out, 4, lambda *_: None))

    def full(file, raw):
        if os.fstat(file).st_size > 700:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_some(file, raw[:100])

    with monkeypatch.context() as small:
        small.setattr(os, "write", full)
        with pytest.raises(VtcoreError, match=r"out can't be written after 1 answers: No space left"):
            run()
    assert not out.read_bytes().endswith(b"\n")
    assert run() == (0, {})
    assert sorted(a["custom_id"] for a in read(out)) == ["q0", "q1", "q2"]


WRONG = {
    "no JSON": "{",
    "must be an object": "[]",
    "custom_id is None": json.dumps({"method": "POST"}),
    "isn't served": json.dumps(line(0) | {"url": "/v1/embeddings"}),
    "'GET'": json.dumps(line(0) | {"method": "GET"}),
    "body is None": json.dumps(line(0) | {"body": None}),
    "comes whole": json.dumps(line(0, stream=True)),
    "is that of line 1": json.dumps(line(1)),
}


@pytest.mark.parametrize("words", WRONG)
def test_a_wrong_line_is_named_before_anything_is_computed(served, tmp_path, words):
    (tmp_path / "in").write_text(json.dumps(line(1)) + "\n" + WRONG[words] + "\n")
    with pytest.raises(ArgumentError, match="line 2: ") as wrong:
        served(lambda service: run_batch(service, tmp_path / "in", tmp_path / "out", 4, lambda *_: None))
    assert words in str(wrong.value)
    assert not (tmp_path / "out").read_text()


@pytest.mark.parametrize(("lines", "words"), [([line(5)], "do not hold"), ([line(0, max_tokens=7)], "ask otherwise")])
def test_answers_to_other_requests_are_not_mixed_in(batch, lines, words):
    batch([line(0)])
    with pytest.raises(ArgumentError, match=words):
        batch(lines)


def test_a_file_that_is_no_output_is_left_alone(batch, tmp_path):
    (tmp_path / "out").write_text("my thesis\n")
    with pytest.raises(ArgumentError, match="line 1: no answer of a batch"):
        batch([line(0)])
    assert (tmp_path / "out").read_text() == "my thesis\n"


def test_what_can_t_be_read_twice_is_refused(served, tmp_path):
    source = write(tmp_path / "in", [line(0)])
    os.mkfifo(tmp_path / "pipe")
    for asked, answers in ((tmp_path / "pipe", tmp_path / "out"), (source, tmp_path / "pipe"), (source, tmp_path)):
        with pytest.raises(ArgumentError, match="it must be a file, since"):
            served(lambda service, files=(asked, answers): run_batch(service, *files, 4, lambda *_: None))


def test_what_changes_meanwhile_is_never_taken_for_answered(served, tmp_path):
    source, out = write(tmp_path / "in", [line(i) for i in range(3)]), tmp_path / "out"

    def change(count, total):
        if not count:
            write(source, [line(0), line(1, max_tokens=9), line(5)])

    with pytest.raises(VtcoreError, match=r"was changed meanwhile: 2 of its requests are gone, such as 'q1'"):
        served(lambda service: run_batch(service, source, out, 4, change))
    assert [a["custom_id"] for a in read(out)] == ["q0"]


def test_two_processes_do_not_write_one_file(batch, tmp_path):
    with BatchOutput(tmp_path / "out"), pytest.raises(ArgumentError, match="another process"):
        batch([line(0)])


def test_a_file_that_is_refused_is_closed_and_let_go(tmp_path):
    output = BatchOutput(tmp_path / "out")
    output.path.write_text("no answer\n")
    with pytest.raises(ArgumentError, match="out, line 1"), output:
        pass
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(output._file)
    output.path.unlink()
    with BatchOutput(output.path):
        pass


def test_the_command_answers_a_file(model, tmp_path, capsys):
    source = write(tmp_path / "in", [line(i) for i in range(3)] + [line(3, n=0)])
    assert main(["run-batch", str(model), str(source), str(tmp_path / "out")]) == 1
    assert "1 requests were refused" in capsys.readouterr().err
    assert len(read(tmp_path / "out")) == 4


def test_a_name_that_is_no_text_is_found_again(batch):
    lines = [line(0) | {"custom_id": name} for name in ("\ud800", "\ud801", "\u2028", "")]
    _, first, _ = batch(lines)
    _, second, seen = batch(lines)
    assert second == first
    assert seen == [(4, 4)]
    assert sorted(a["custom_id"] for a in first) == ["", "\u2028", "\ud800", "\ud801"]


@pytest.mark.parametrize("limit", ["--max-num-queued-reqs", "--max-num-queued-tokens"])
def test_a_limit_of_the_queue_would_lose_answers(model, tmp_path, capsys, limit):
    source = write(tmp_path / "in", [line(0)])
    assert main(["run-batch", str(model), str(source), str(tmp_path / "out"), limit, "1"]) == 2
    assert f"{limit} would leave requests of the file without an answer" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_killed_and_started_again_it_yields_each_answer_once(model, tmp_path):
    count, gate = 30, Gate(tmp_path / "gate", behind="reference")
    source, out = write(tmp_path / "in", [line(i, max_tokens=12) for i in range(count)]), tmp_path / "out"
    command = [sys.executable, "-m", "vtcore", "run-batch", str(model), str(source), str(out), "--max-num-seqs", "2", *gate.options]
    gate.shut(lookups=150)  # of 360
    for answers in (1, 5):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        end = time.monotonic() + SECONDS
        while not out.exists() or out.read_bytes().count(b"\n") < answers:
            assert (process.poll(), time.monotonic() < end) == (None, True)
            time.sleep(0.002)
        process.kill()
        process.wait()
        assert answers <= out.read_bytes().count(b"\n") < count
    gate.open()
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    assert sorted(a["custom_id"] for a in read(out)) == sorted(f"q{i}" for i in range(count))
