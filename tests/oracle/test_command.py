"""vtcore oracle: record, compare and explain from the command line, their files and exit statuses."""

import json
import shutil
import xml.etree.ElementTree as ET

import pytest

from tests.checkpoints import random_llama
from vtcore.cli import main

FAULT = """
from vtcore.ops import silu_mul
from vtcore.provider import Provider
from vtcore.tensor import of

provider = Provider("mine")


@provider.kernel(silu_mul)
def run(gate, up, limit=float("inf")):
    right = silu_mul.reference(gate.numpy(), up.numpy(), limit)
    return of(right * 2 if gate.shape[0] == 1 else right)
"""


@pytest.fixture(scope="module")
def golden(model, tmp_path_factory):
    directory = tmp_path_factory.mktemp("golden")
    (directory / "p.txt").write_text("hello there\nThe sky is\n")
    path = directory / "golden.safetensors"
    arguments = ["--prompts", str(directory / "p.txt"), "-o", str(path), "--max-tokens", "4", "--providers", "reference"]
    assert main(["oracle", "record", model, *arguments]) == 0
    return str(path)


def compare(capsys, golden, *arguments):
    code = main(["oracle", "compare", golden, *arguments])
    return code, *capsys.readouterr()


def test_record_says_what_it_wrote(model, tmp_path, capsys):
    (tmp_path / "p.txt").write_text("hi\n")
    path = tmp_path / "a.safetensors"
    arguments = [
        "--prompts",
        str(tmp_path / "p.txt"),
        "--chat",
        "-o",
        str(path),
        "--max-tokens",
        "3",
        "--hidden-states",
        "--top-k-logprobs",
        "2",
    ]
    assert main(["oracle", "record", model, *arguments, "--dtype", "bfloat16"]) == 0
    assert f"{path}: 1 prompts, 3 tokens, the nearest tie " in capsys.readouterr().out
    code, out, _ = compare(capsys, str(path), "--engine", "vtcore", "--dtype", "bfloat16")
    assert code == 0
    assert "recorded" not in out
    assert "dtype=bfloat16" in out


def test_compare_passes_and_writes_every_report(golden, tmp_path, capsys):
    files = {form: tmp_path / form for form in ("json", "junit", "html")}
    code, out, _ = compare(capsys, golden, "--engine", "vtcore", *(a for form, path in files.items() for a in (f"--{form}", str(path))))
    assert (code, out.splitlines()[-1]) == (0, "2 EXACT: pass")
    assert json.loads(files["json"].read_text())["passed"] is True
    assert ET.parse(files["junit"]).find("testsuite").get("tests") == "2"
    assert files["html"].read_text().startswith("<!doctype html>")


def test_compare_fails_where_log_probabilities_drift(golden, capsys):
    code, out, _ = compare(capsys, golden, "--engine", "vtcore", "--dtype", "bfloat16", "--logprob-tolerance", "1e-6")
    assert (code, out.splitlines()[-1]) == (1, "2 DIVERGED: fail")
    assert compare(capsys, golden, "--engine", "vtcore", "--dtype", "bfloat16", "--arithmetic", "bfloat16")[0] == 0


def test_a_near_tie_passes_unless_it_must_not(golden, capsys, tmp_path, standin):
    def twist(ids, row):
        first, second = (-row).argsort(kind="stable")[:2]
        row[[first, second]] = row[[second, first]]
        return row

    server = standin("llama.cpp", twist=twist)
    near = ["--engine", server.url, "--near-tie", "100", "--logprob-tolerance", "100"]
    code, out, _ = compare(capsys, golden, *near)
    assert (code, out.splitlines()[-1]) == (0, "2 NEAR_TIE: pass")
    files = {form: tmp_path / form for form in ("json", "junit")}
    code, out, _ = compare(capsys, golden, *near, "--no-near-ties", *(a for form, path in files.items() for a in (f"--{form}", str(path))))
    assert (code, out.splitlines()[-1]) == (1, "2 NEAR_TIE: fail")
    said = json.loads(files["json"].read_text())
    assert (said["passed"], said["near_ties_pass"]) == (False, False)
    suite = ET.parse(files["junit"]).find("testsuite")
    assert [suite.get("failures"), *(case[0].tag for case in suite.findall("testcase"))] == ["2", "failure", "failure"]


def test_compare_with_a_server_and_with_a_recording(golden, capsys, standin):
    server = standin("vllm")
    code, out, _ = compare(capsys, golden, "--engine", server.url, "--forcing", "continue", "--timeout", "180")
    assert (code, out.splitlines()[-1]) == (0, "2 EXACT: pass")
    assert "vllm url=http://127.0.0.1" in out
    assert compare(capsys, golden, "--engine", golden)[1].splitlines()[-1] == "2 EXACT: pass"
    assert compare(capsys, golden, "--engine", "http://127.0.0.1:9")[0] == 1


def test_another_model_is_noted(golden, model, capsys, tmp_path):
    other = shutil.copytree(model, tmp_path / "other")
    random_llama(other, vocab_size=257, seed=4)
    code, out, _ = compare(capsys, golden, "--engine", "vtcore", "--model", str(other))
    assert code == 1
    assert "the model's files are not those of the recording" in out


def test_a_fault_of_decoding_alone_is_found_by_generating(golden, tmp_path, capsys):
    (tmp_path / "mine.py").write_text(FAULT)
    wrong = ["--engine", "vtcore", "--providers", f"{tmp_path / 'mine.py'},reference"]
    assert compare(capsys, golden, *wrong)[0] == 0
    code, out, _ = compare(capsys, golden, *wrong, "--forcing", "continue")
    assert (code, out.splitlines()[-1]) == (1, "2 DIVERGED: fail")
    code, out, _ = compare(capsys, golden, "--engine", "vtcore", "--forcing", "continue")
    assert (code, out.splitlines()[-1]) == (0, "2 EXACT: pass")


def test_other_weights_and_another_tokenizer_under_the_recorded_name_are_noted(golden, model, tmp_path, capsys):
    changed = tmp_path / "changed"
    shutil.copytree(model, changed)
    tokenizer = json.loads((changed / "tokenizer.json").read_text())
    tokenizer["normalizer"] = {"type": "Replace", "pattern": {"String": "e"}, "content": "i"}
    (changed / "tokenizer.json").write_text(json.dumps(tokenizer))
    code, out, _ = compare(capsys, golden, "--engine", "vtcore", "--model", str(changed))
    assert code == 1
    assert "it tokenises the prompt differently" in out
    assert "its tokenizer is another one" in out


def test_a_prompt_that_is_too_long_is_found_before_the_first_is_answered(model, tmp_path, capsys, monkeypatch):
    from vtcore.oracle.engines.vtcore import VtcoreEngine

    monkeypatch.setattr(VtcoreEngine, "answer", lambda *a: pytest.fail("answered"))
    (tmp_path / "p.txt").write_text("hi\n" + "word " * 40 + "\n")
    arguments = ["--prompts", str(tmp_path / "p.txt"), "-o", str(tmp_path / "g"), "--max-model-len", "32"]
    assert main(["oracle", "record", model, *arguments]) == 2
    assert "prompt 2 word word" in capsys.readouterr().err
    arguments[3] = str(tmp_path / "none" / "g")
    assert main(["oracle", "record", model, *arguments]) == 2
    assert "there is no directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--engine", "nobody"], "engine is 'nobody'; it must be vtcore, transformers"),
        (["--engine", "vtcore", "--timeout", "3"], "--timeout does nothing with engine vtcore"),
        (["--engine", "http://127.0.0.1:9", "--dtype", "bfloat16"], "--dtype does nothing with engine a server"),
        (["--engine", "http://127.0.0.1:9", "--no-capture", "--model", "x"], "--no-capture, --model does nothing"),
        (["--engine", "transformers", "--numerics", "fast"], "--numerics does nothing with engine transformers"),
        (["--engine", "http://127.0.0.1:9", "--api-key-env", "VTCORE_NO_SUCH_KEY"], "which is not set in the environment"),
        (["--engine", "vtcore", "--near-tie", "-1"], "tolerance near_tie is -1.0"),
        (["--engine", "http://127.0.0.1:9", "--block-size", "16"], "--block-size does nothing with engine a server"),
        (["--engine", "vtcore", "--scheduling-policy", "lpm"], "--scheduling-policy has no effect here"),
        (["--engine", "transformers", "--forcing", "continue"], "--forcing does nothing with engine transformers"),
        (["--engine", "vtcore", "--json", "/no/such/place"], "--json /no/such/place: there is no directory /no/such"),
        (["--engine", "vtcore", "--html", "/"], "--html /: it can't be written there"),
        (["--engine", "vtcore", "--json", "x", "--html", "./x"], "--json, --html name one file twice"),
    ],
)
def test_wrong_arguments(golden, capsys, arguments, words):
    code, _, err = compare(capsys, golden, *arguments)
    assert code == 2
    assert words in err


def test_no_recording(capsys, tmp_path):
    code, _, err = compare(capsys, str(tmp_path / "none"), "--engine", "vtcore")
    assert (code, "there is no recording" in err) == (2, True)


def test_a_key_is_sent(golden, capsys, standin, monkeypatch):
    from vtcore.oracle.servers.client import Client

    keys = []
    monkeypatch.setenv("SOME_KEY", "secret")
    monkeypatch.setattr(Client, "_headers", lambda self: keys.append(self.api_key) or {"Content-Type": "application/json"})
    assert compare(capsys, golden, "--engine", standin("vllm").url, "--api-key-env", "SOME_KEY")[0] == 0
    assert set(keys) == {"secret"}


def test_explain(golden, capsys):
    assert main(["oracle", "explain", golden, "--prompt", "1", "--providers", "reference"]) == 0
    out = capsys.readouterr().out
    assert "float32, exact" in out
    assert "bfloat16 at linear alone" in out
    assert "flipped by" in out
    assert main(["oracle", "explain", golden, "--prompt", "1", "--dtype", "bfloat16"]) == 2
    assert main(["oracle", "explain", golden, "--prompt", "3"]) == 2
    capsys.readouterr()
    assert main(["oracle", "explain", golden, "--prompt", "1", "--strict", "--no-capture", "--block-size", "8"]) == 2
    assert "--strict, --no-capture, --block-size does nothing" in capsys.readouterr().err


def test_explain_replays_another_model_than_a_recording_names(golden, capsys):
    assert main(["oracle", "explain", golden, "--prompt", "1", "--engine", golden, "--model", "/moved", "--providers", "reference"]) == 2
    assert "the engine differs in no token" in capsys.readouterr().err
