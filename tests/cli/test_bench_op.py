import json

import pytest

from vtcore.cli import main
from vtcore.conformance.case import cases
from vtcore.conformance.saved import save
from vtcore.op import REGISTRY


@pytest.fixture(autouse=True)
def little_memory(monkeypatch):
    monkeypatch.setattr("vtcore.bench.roofline.array_bytes", lambda: 1 << 20)
    monkeypatch.setattr("vtcore.bench.op_inputs.SETS", 4)


def bench_op(capsys, *arguments):
    code = main(["bench-op", *map(str, arguments)])
    return code, *capsys.readouterr()


def test_a_kernel_is_timed_against_another(capsys):
    shape = ["--shape", "T=1,N=64,K=256", "--dtype", "Q8_0", "--threads", "1", "--quick", "--json"]
    code, out, _ = bench_op(capsys, "linear", "--provider", "portable", "--against", "reference", *shape)
    result = json.loads(out)
    assert code == 0
    assert (result["op"], result["call"]) == ("linear", "linear(x=float32[1 256], weight=Q8_0[64 256])")
    assert [s["provider"] for s in result["speeds"]] == ["portable", "reference"]
    assert result["ratios"][0]["against"] == "reference"
    assert 0 < result["ratios"][0]["least"] <= result["ratios"][0]["median"] <= result["ratios"][0]["most"]
    assert result["roofline"]["threads"] == 1


def test_a_wrong_kernel_is_an_exit_status(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(
        "from vtcore.ops import rms_norm\nfrom vtcore.provider import Provider\nfrom vtcore.tensor import of\n"
        "provider = Provider('mine')\nprovider.kernel(rms_norm)(lambda x, **_: of(x.numpy() * 0))\n"
    )
    save(list(cases(REGISTRY["rms_norm"]))[1], tmp_path / "case.npz")
    code, out, _ = bench_op(capsys, "rms_norm", "--provider", tmp_path / "mine.py", "--case", tmp_path / "case.npz", "--quick")
    assert code == 1
    assert "WRONG: mine" in out
    code, _, err = bench_op(capsys, "add", "--provider", "reference", "--case", tmp_path / "case.npz", "--quick")
    assert (code, "is a call of rms_norm, not of add" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give one of --shape, --sample and --case"),
        (["--shape", "T=1", "--sample", "0"], "give one of"),
        (["--sample", "0", "--dtype", "f32"], "belong to --shape"),
        (["--sample", "9999"], "rms_norm has no sample 9999; it has"),
        (["--shape", "T"], "--shape holds 'T'"),
        (["--shape", "T=1,T=2"], "each name once"),
        (["--shape", "T=1,H=8", "--set", "eps=-1"], "eps is -1; it must be 0 or more"),
        (["--shape", "T=1,H=8", "--set", "eps=small"], "eps is str"),
        (["--shape", "T=1,H=8", "--with", "bias"], "rms_norm has no optional array 'bias'"),
    ],
)
def test_wrong_arguments_are_refused(arguments, words, capsys):
    code, out, err = bench_op(capsys, "rms_norm", "--provider", "reference", *arguments)
    assert (code, out) == (2, "")
    assert words in err
