"""The benchmark on a model so small that its figures mean nothing: every one must be there, and be what it says."""

from __future__ import annotations

import json
import sys

import pytest

from tests.checkpoints import random_llama
from vtcore.bench.first_token import seconds_to_output
from vtcore.bench.run import Choice, run
from vtcore.bench.suite import SECTIONS
from vtcore.cli import main
from vtcore.errors import ArgumentError, VtcoreError

FIGURES = {
    "prefill 128": "tokens/s", "prefill 512": "tokens/s", "decode 1": "tokens/s", "decode 8": "tokens/s", "decode 16": "tokens/s",
    "first token": "s", "peak memory": "bytes", "read bandwidth": "GB/s", "weights read": "GB/s", "share of bandwidth": "%",
    "step": "ms", "outside native code": "%", "prefill 512 op by op": "tokens/s", "decode 1 op by op": "tokens/s",
}  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(random_llama(tmp_path_factory.mktemp("llama"), max_position_embeddings=1024))


@pytest.fixture(scope="module")
def result(model):
    return run(Choice(model, threads=1, quick=True)).json()


def test_json_has_every_figure_with_its_unit(result):
    assert {name: figure["unit"] for name, figure in result["figures"].items()} == FIGURES
    assert json.loads(json.dumps(result)) == result


def test_every_figure_was_measured_or_says_why_not(result):
    without = {name: f["note"] for name, f in result["figures"].items() if f["value"] is None}
    assert without.keys() == {"first token"}
    assert "has no tokenizer" in without["first token"]  # the command takes a text
    for name in FIGURES.keys() - without:
        figure = result["figures"][name]
        assert figure["value"] > 0, name
        assert min(figure["runs"]) <= figure["value"] <= max(figure["runs"])


def test_sizes_reach_the_engine_and_the_command():
    choice = Choice("m", threads=1, block_size=16, max_num_batched_tokens=256)
    assert choice.keywords() == {"numerics": "exact", "threads": 1, "block_size": 16, "max_num_batched_tokens": 256}
    assert choice.options()[-4:] == ["--block-size", "16", "--max-num-batched-tokens", "256"]
    more = {"dtype": "bfloat16", "kv_cache_dtype": "fp8", "memory_limit": "1G"}
    assert Choice("m", **more).keywords() == {"numerics": "exact", **more}
    assert Choice("m", **more).options()[-6:] == ["--dtype", "bfloat16", "--kv-cache-dtype", "fp8", "--memory-limit", "1G"]


def test_shares_are_of_one_whole(result):
    for case, ops in result["ops"].items():
        assert sum(o["share"] for o in ops) == pytest.approx(1), case
        assert {"linear", "paged_attention", "rms_norm", "argmax"} <= {o["op"] for o in ops}
    assert result["ops"].keys() == {"prefill 512", "decode 1"}
    assert 0 < result["figures"]["outside native code"]["value"] < 100


def test_machine_model_and_settings_are_named(result):
    machine = result["machine"]
    assert machine["processor"]
    assert machine["cores"] >= 1
    assert machine["packages"]["numpy"]
    assert "instruction set" in machine["providers"]["portable"]
    assert result["model"]["formats"] == {"float32": result["model"]["bytes"]}
    assert (result["settings"]["numerics"], result["settings"]["threads"], result["settings"]["quick"]) == ("exact", 1, True)


def test_weights_read_for_a_token_are_all_but_the_embedding(result, model):
    embedding = 300 * 32 * 4
    expected = result["model"]["bytes"] - embedding + embedding // 300
    assert f"{expected} bytes" in result["figures"]["weights read"]["note"]


def test_a_context_too_short_is_said(tmp_path):
    short = run(Choice(str(random_llama(tmp_path)), threads=1, quick=True, only=("prefill", "decode", "bandwidth", "overhead", "ops")))
    figures = {f.name: f for f in short.figures}
    assert figures["read bandwidth"].value
    for name in ("prefill 128", "prefill 512", "decode 1", "decode 16", "weights read", "outside native code"):
        assert figures[name].value is None
        assert "this model's context is 128" in figures[name].note


def test_without_native_code_its_share_is_not_made_up(model):
    [figure] = run(Choice(model, providers="reference", quick=True, only=("overhead",))).figures
    assert (figure.name, figure.value) == ("outside native code", None)
    assert "no provider of this chain" in figure.note


@pytest.mark.parametrize("only", [("speed",), (), ("decode", "decode")])
def test_sections_are_checked_before_anything_runs(only):
    with pytest.raises(ArgumentError, match=", ".join(SECTIONS)):
        Choice("no such model", only=only)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--numerics", "fast"], "numerics 'fast' has no effect"),
        (["--providers", "reference", "--threads", "2"], "threads is 2, and no provider of reference computes with threads"),
        (["--only", "decode,nonsense"], "only holds nonsense"),
        (["--only", ""], "a benchmark has the sections prefill"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(model, options, words, capsys):
    assert main(["bench", model, "--quick", *options]) == 2
    assert words in capsys.readouterr().err


def test_the_command_prints_an_object_or_tables(model, capsys):
    arguments = ["bench", model, "--quick", "--only", "prefill,ops", "--threads", "1"]
    assert main([*arguments, "--json"]) == 0
    printed = capsys.readouterr()
    assert set(json.loads(printed.out)) == {"machine", "model", "settings", "figures", "ops"}
    assert "vtcore: prefill 512: " in printed.err
    assert main([*arguments, "--kv-cache-dtype", "fp8"]) == 0
    printed = capsys.readouterr().out
    for part in (
        "machine   ",
        "settings  numerics exact, kv_cache_dtype fp8; ",
        "prefill 512",
        "tokens/s",
        "paged_attention",
        "no tokenizer",
    ):
        assert part in printed


def test_a_process_is_timed_to_its_first_byte_and_let_run_to_its_end(tmp_path):
    ended = tmp_path / "ended"
    much = f"print('x', flush=True); print('y' * 1_000_000); open({str(ended)!r}, 'w')"
    assert seconds_to_output([sys.executable, "-c", much]) > 0
    assert ended.exists()


@pytest.mark.parametrize("program", ["import sys; sys.exit('no model')", "print('half'); raise SystemExit('no model')"])
def test_a_process_that_fails_gives_no_time(program):
    with pytest.raises(VtcoreError, match="ended with status 1: no model"):
        seconds_to_output([sys.executable, "-c", program])


def test_a_process_that_says_nothing_gives_no_time():
    with pytest.raises(VtcoreError, match="ended with status 0: without a word"):
        seconds_to_output([sys.executable, "-c", ""])
