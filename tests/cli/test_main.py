import os
import subprocess
import sys

import pytest

from tests.patience import SECONDS
from vtcore import cli
from vtcore.errors import ArgumentError, GGUFError, ModelNotFoundError


def vtcore(*arguments, **options):
    return subprocess.run([sys.executable, "-m", "vtcore", *arguments], capture_output=True, text=True, timeout=SECONDS, **options)


def raising(wrong):
    def command(args):
        raise wrong

    return command


@pytest.mark.parametrize(
    ("wrong", "code", "message"),
    [
        (ArgumentError("threads is 0"), 2, "vtcore: error: threads is 0\n"),
        (ModelNotFoundError("no such\nmodel"), 1, "vtcore: error: no such model\n"),
        (GGUFError("bad magic"), 1, "vtcore: error: bad magic\n"),
        (FileNotFoundError(2, "No such file", "x.gguf"), 1, "vtcore: error: [Errno 2] No such file: 'x.gguf'\n"),
        (KeyboardInterrupt(), 130, "vtcore: interrupted\n"),
        (KeyError("x"), 1, "vtcore: error: a fault in vtcore, KeyError: 'x'; --debug shows where\n"),
    ],
)
def test_an_error_is_one_line_and_a_code(monkeypatch, capsys, wrong, code, message):
    monkeypatch.setattr(cli.doctor, "main", raising(wrong))
    assert cli.main(["doctor"]) == code
    assert capsys.readouterr().err == message


@pytest.mark.parametrize("arguments", [["--debug", "doctor"], ["doctor", "--debug"]])
def test_debug_shows_the_traceback(monkeypatch, capsys, arguments):
    monkeypatch.setattr(cli.doctor, "main", raising(GGUFError("bad magic")))
    assert cli.main(arguments) == 1
    assert capsys.readouterr().err.startswith("Traceback (most recent call last)")


def test_a_wrong_option_is_refused_with_code_2(capsys):
    for arguments in ([], ["nothing"], ["run"], ["run", "m"], ["run", "m", "p", "--max-tokens", "0"], ["run", "m", "p", "--nonsense"]):
        with pytest.raises(SystemExit) as stopped:
            cli.main(arguments)
        assert stopped.value.code == 2
        assert "usage: vtcore" in capsys.readouterr().err


def test_nobody_reading_is_quiet():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-m", "vtcore", "ops"], stdout=write, stderr=subprocess.PIPE, text=True, timeout=SECONDS)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    ("arguments", "closed", "printed"),
    [(["ops", "add"], "<&-", "add(x, y)"), (["ops", "add"], ">&-", ""), (["ops", "add"], "2>&-", "add(x, y)"), (["nothing"], "2>&-", "")],
)
def test_a_stream_that_is_closed_is_no_fault(arguments, closed, printed):
    line = f'"$0" -m vtcore "$@" {closed}'
    done = subprocess.run(["sh", "-c", line, sys.executable, *arguments], capture_output=True, text=True, timeout=SECONDS)
    assert (done.returncode, done.stderr) == (2 if arguments == ["nothing"] else 0, "")
    assert done.stdout.startswith(printed)
    assert bool(done.stdout) == bool(printed)


def test_the_module_is_the_command():
    done = vtcore("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("vtcore ")


def test_an_unknown_model_is_one_line_and_no_traceback():
    done = vtcore("run", "smollm3", "hello")
    assert done.returncode == 1
    assert done.stderr.startswith("vtcore: error: there is no model 'smollm3' (nearest: smollm2-135m); a model is a directory")
    assert done.stderr.count("\n") == 1


def test_every_command_explains_itself(capsys):
    for command in ("run", "chat", "ops", "doctor", "explain", "pull"):
        with pytest.raises(SystemExit) as stopped:
            cli.main([command, "--help"])
        assert stopped.value.code == 0
        assert f"usage: vtcore {command}" in capsys.readouterr().out


def test_a_terminal_that_knows_only_ascii_gets_question_marks(chat_model):
    done = vtcore("run", chat_model, "hi", "--max-tokens", "80", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert "?" in done.stdout
