"""`vtcore run` with --trace and --capture."""

import json

from vtcore.cli import main
from vtcore.conformance.saved import load_all


def run(capsys, *arguments):
    code = main(["run", *map(str, arguments), "--max-tokens", "5"])
    return code, *capsys.readouterr()


def modes(trace):
    return [e["args"]["mode"] for e in trace["traceEvents"] if e["name"] == "forward"]


def test_a_trace_holds_every_op_and_says_that_nothing_was_replayed(chat_model, tmp_path, capsys):
    code, out, err = run(capsys, chat_model, "hi", "--trace", tmp_path / "t.json")
    trace = json.loads((tmp_path / "t.json").read_text())
    assert code == 0
    assert set(modes(trace)) == {"op by op"}
    assert trace["metadata"]["replay"] == "off: every step runs op by op"
    assert f"wrote {len([e for e in trace['traceEvents'] if e['ph'] != 'M'])} events to {tmp_path / 't.json'}" in err
    code, again, _ = run(capsys, chat_model, "hi", "--trace", tmp_path / "r.json", "--trace-replay")
    assert (code, again) == (0, out)
    assert "replayed" in modes(json.loads((tmp_path / "r.json").read_text()))


def test_a_full_disk_is_named_and_nothing_said_to_be_written(chat_model, capsys):
    code, _, err = run(capsys, chat_model, "hi", "--trace", "/dev/full")
    assert code == 1
    assert err.endswith("vtcore: error: [Errno 28] No space left on device: '/dev/full'\n")
    assert "wrote" not in err


def test_calls_are_captured(chat_model, tmp_path, capsys):
    code, _, err = run(capsys, chat_model, "hi", "--capture", "rms_norm:1", "--capture", "add:9", "--capture-dir", tmp_path / "c")
    assert code == 0
    assert [c.op.name for c in load_all(tmp_path / "c")].count("rms_norm") == 1
    assert "of 9 calls of add: no more came that differ" in err
    assert f"cases in {tmp_path / 'c'}" in err


def test_options_that_would_do_nothing_are_refused(chat_model, tmp_path, capsys):
    for options, words in (
        (["--trace-replay"], "does nothing without --trace"),
        (["--capture-dir", "x"], "does nothing without --capture"),
        (["--trace", tmp_path / "no" / "t.json"], "there is no directory"),
        (["--trace", tmp_path / "t.json", "--trace-replay", "--no-capture"], "contradict"),
        (["--capture", "nothing:3"], "there is no op 'nothing'"),
    ):
        code, out, err = run(capsys, chat_model, "hi", *options)
        assert (code, out) == (2, "")
        assert words in err


def test_captured_calls_are_checked(chat_model, tmp_path, capsys):
    run(capsys, chat_model, "hi", "--capture", "rms_norm:2", "--capture", "add:1", "--capture-dir", tmp_path / "c")
    assert main(["check", "portable", "--cases", str(tmp_path / "c")]) == 0
    assert "rms_norm" in capsys.readouterr().out
    (tmp_path / "mine.py").write_text(
        "from vtcore.ops import rms_norm\nfrom vtcore.provider import Provider\nfrom vtcore.tensor import of\n"
        "provider = Provider('mine')\nprovider.kernel(rms_norm)(lambda x, **_: of(x.numpy() * 0))\n"
    )
    assert main(["check", str(tmp_path / "mine.py"), "rms_norm", "--cases", str(tmp_path / "c")]) == 1
    assert f"rms_norm --cases {tmp_path / 'c'}" in capsys.readouterr().out
    assert main(["check", "portable", "linear", "--cases", str(tmp_path / "c")]) == 2
    assert "holds no case of linear" in capsys.readouterr().err
