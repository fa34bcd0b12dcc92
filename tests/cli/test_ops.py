import numpy as np
import pytest

from vtcore import ops
from vtcore.cli import main
from vtcore.op import REGISTRY


def test_the_list_holds_every_op_with_its_providers(capsys):
    assert main(["ops"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == sorted(REGISTRY)
    assert all("reference" in line for line in lines)


def test_one_op_is_explained(capsys):
    assert main(["ops", "rms_norm"]) == 0
    text = capsys.readouterr().out
    op = REGISTRY["rms_norm"]
    samples = sum(1 for _ in op.samples(np.random.default_rng(0)))
    for part in ("rms_norm(x, weight, eps, offset=0.0, groups=1)", "mean(x^2)", op.signature.text, op.tolerance.source, f"{samples} calls"):
        assert part in text


def test_every_op_can_be_explained(capsys):
    for name in ops.__all__:
        assert main(["ops", name, "--providers", "reference"]) == 0
        assert f"{name}(" in capsys.readouterr().out


def test_a_providers_file_can_be_looked_at(tmp_path, capsys):
    path = tmp_path / "mine.py"
    lines = (
        "from vtcore.ops import silu",
        "from vtcore.provider import Provider",
        "provider = Provider('mine')",
        "provider.kernel(silu)(lambda x: x)",
    )
    path.write_text("\n".join(lines))
    assert main(["ops", "silu", "--providers", str(path)]) == 0
    assert "mine         yes: " in capsys.readouterr().out
    assert main(["ops", "relu", "--providers", str(path)]) == 0
    assert "mine         no kernel" in capsys.readouterr().out


def test_an_unknown_op_is_told_the_known_ones(capsys):
    assert main(["ops", "rmsnorm"]) == 2
    assert "no op 'rmsnorm' (nearest: rms_norm); there are add," in capsys.readouterr().err


@pytest.mark.parametrize("name", ["nowhere", "./nowhere.py"])
def test_a_provider_that_is_not_there_is_named(name, capsys):
    assert main(["ops", "--providers", name]) == 2
    assert name.removeprefix("./") in capsys.readouterr().err
