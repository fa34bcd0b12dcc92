"""`vtcore check`, as it is typed."""

import json
import re

import numpy as np
import pytest

from vtcore.cli import main
from vtcore.conformance import find, load, run
from vtcore.op import REGISTRY

MINE = """
import numpy as np
from vtcore.conformance import kernel

@kernel("scale")
def scale(x, factor):
    out = np.asarray(x * np.float64(factor), np.float32)
    if x.ndim == 1:
        out[-1] += 1
    return out
"""


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    return str(tmp_path / "mine.py")


def test_a_failure_is_shown_saved_and_run_again(mine, tmp_path, capsys):
    assert main(["check", mine, "scale", "--no-isolate", "--save", str(tmp_path / "failed")]) == 1
    said = capsys.readouterr().out
    assert "fail     mine scale#4 scale(x=float32[96], factor=-3.0)" in said
    assert f"again: vtcore check {mine} scale --case 4 --seed 0" in said
    assert "vtcore/ops/elementwise.py:" in said
    verdict = run(find(mine), load(tmp_path / "failed" / "scale-4.npz"))
    assert (verdict.outcome, verdict.worst.index) == ("fail", (95,))
    assert main(["check", mine, "scale", "--no-isolate", "--case", "4"]) == 1
    assert re.search(r"mine\.py: 1 fail in \d+\.\d s\n\Z", capsys.readouterr().out)
    assert main(["check", mine, "scale", "--no-isolate", "--case", "fresh0"]) == 0
    assert main(["check", mine, "scale", "--no-isolate", "--cases", str(tmp_path / "failed")]) == 1


def test_a_file_runs_in_a_process_of_its_own(mine, capsys):
    assert main(["check", mine, "scale", "--format", "json"]) == 1
    read = json.loads(capsys.readouterr().out)
    assert read["facts"] == {"runs": "functions of NumPy arrays"}
    assert read["counts"]["fail"] == 1


def test_known_gaps_make_it_pass_until_they_are_stale(mine, tmp_path, capsys):
    (tmp_path / "gaps").write_text("scale#4 vectors\n")
    assert main(["check", mine, "scale", "--no-isolate", "--known-gaps", str(tmp_path / "gaps")]) == 0
    assert "1 known_gap" in capsys.readouterr().out
    (tmp_path / "gaps").write_text("scale#4 vectors\nscale#3 nothing\n")
    assert main(["check", mine, "scale", "--no-isolate", "--known-gaps", str(tmp_path / "gaps")]) == 1
    assert "gaps:2: scale#3: nothing" in capsys.readouterr().out


@pytest.mark.parametrize("format", ["text", "json", "junit", "markdown", "html"])
def test_a_report_goes_into_a_file(format, tmp_path, capsys):
    assert main(["check", "reference", "scale", "--format", format, "--output", str(tmp_path / "report")]) == 0
    assert capsys.readouterr().out == f"reference: passed; the report is in {tmp_path / 'report'}\n"
    assert "scale" in (tmp_path / "report").read_text()


def test_a_list_runs_nothing(capsys):
    assert main(["check", "./missing.py", "scale", "softmax", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "scale#0                  scale(x=float32[1 64], factor=0.1)"
    assert any(line.startswith("softmax#fresh2") for line in lines)


def test_drawn_calls_are_counted(capsys):
    assert main(["check", "reference", "relu", "--fuzz", "7"]) == 0
    samples = sum(1 for _ in REGISTRY["relu"].samples(np.random.default_rng(0)))
    assert f"{samples + 7 + 7} pass" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["portabel"], "there is no provider 'portabel'"),
        (["portable", "scael"], "there is no op 'scael'"),
        (["portable", "scale", "--case", "99"], "no case '99'"),
        (["portable", "scale", "--case", "1", "--fuzz", "3"], "leave --fuzz away"),
        (["portable", "scale", "--cases", "x", "--fuzz", "3"], "leave --fuzz and --case away"),
        (["portable", "scale", "--no-isolate", "--timeout", "3"], "a time limit needs a process"),
        (["portable", "scale", "--known-gaps", "missing"], "known gaps can't be read"),
        (["./missing.py", "scale"], "there is no provider file"),
    ],
)
def test_misuse_is_one_line_and_status_2(options, words, capsys):
    assert main(["check", *options]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("options", [["--fuzz", "0"], ["--seed", "-1"], ["--timeout", "0"], ["--format", "xml"]])
def test_an_option_s_value_is_checked(options):
    with pytest.raises(SystemExit) as ended:
        main(["check", "portable", *options])
    assert ended.value.code == 2


def test_a_report_that_can_t_be_written_is_refused_before_anything_runs(tmp_path, capsys):
    assert main(["check", "./missing.py", "--output", str(tmp_path / "no" / "report")]) == 2
    assert "--output" in (said := capsys.readouterr().err)
    assert "there is no directory" in said


def test_a_list_takes_no_options_of_a_run(tmp_path, capsys):
    assert main(["check", "portable", "scale", "--list", "--fuzz", "3"]) == 2
    assert "--fuzz has no effect with --list" in capsys.readouterr().err
