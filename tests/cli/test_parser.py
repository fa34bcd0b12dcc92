"""What isn't known is refused by the command that it was said to, and the nearest is named."""

import pytest

from vtcore.cli import main

MISTYPED = [
    ("rnu", "vtcore: error: argument COMMAND: invalid choice: 'rnu'", "run"),
    ("run m p --max-tokns 3", "vtcore run: error: unrecognized arguments: --max-tokns 3", "--max-tokens"),
    ("run m p --max-tokns=3", "vtcore run: error: unrecognized arguments: --max-tokns=3", "--max-tokens"),
    ("run m p --numerics exat", "vtcore run: error: argument --numerics: invalid choice: 'exat'", "exact"),
    ("oracle recrod m", "vtcore oracle: error: argument COMMAND: invalid choice: 'recrod'", "record"),
    ("cache clear modles", "vtcore cache clear: error: argument WHAT: invalid choice: 'modles'", "models"),
]


@pytest.mark.parametrize(("line", "begins", "meant"), MISTYPED)
def test_the_nearest_is_named(capsys, line, begins, meant):
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    said = capsys.readouterr().err.splitlines()[-1]
    assert ended.value.code == 2
    assert said.startswith(begins)
    assert said.endswith(f" (nearest: {meant})")


@pytest.mark.parametrize("line", ["run m p and more", "run m p --qqqqqqqq", "qqqqqqqq"])
def test_where_nothing_is_near_nothing_is_guessed(capsys, line):
    with pytest.raises(SystemExit):
        main(line.split())
    assert "nearest" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("ops rms_nrom", "rms_norm"),
        ("models LlamaForCasualLM", "LlamaForCausalLM"),
        ("check portabel", "portable"),
        ("check portable rmsnorm", "rms_norm"),
        ("explain smollm2-135", "smollm2-135m"),
        ("bench smollm2-135m --only prefil", "prefill"),
        ("bench smollm2-135m --scenario lmp", "lpm"),
        ("run smollm2-135m hi --capture rms_nrom:3", "rms_norm"),
    ],
)
def test_so_is_the_nearest_name(capsys, line, meant):
    assert main(line.split()) in (1, 2)
    assert f" (nearest: {meant})" in capsys.readouterr().err
