"""`vtcore serve` where it can't: in words, with the status that says whose fault it is."""

import subprocess
import sys

import pytest

from tests.patience import SECONDS
from vtcore.cli import main


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ssl-keyfile", "none", "--ssl-certfile", "none"], "--ssl-keyfile none: there is no such file"),
        (["--ssl-keyfile", "none"], "--ssl-keyfile and --ssl-certfile go together"),
        (["--uds", "nowhere/socket"], "--uds nowhere/socket: there is no directory nowhere"),
    ],
)
def test_what_is_missing_is_named(chat_model, tmp_path, monkeypatch, capsys, options, message):
    monkeypatch.chdir(tmp_path)
    assert main(["serve", chat_model, *options]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "status", "messages"),
    [
        (["--scheduling-policy", "lmp"], 2, ["scheduling_policy is 'lmp' (nearest: lpm)"]),
        (["--host", "999.1.1.1"], 2, ["--host '999.1.1.1' is no address of this machine"]),
    ],
)
def test_the_status_is_that_of_every_command(chat_model, options, status, messages):
    done = subprocess.run([sys.executable, "-m", "vtcore", "serve", chat_model, *options], capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == status
    assert all(message in done.stderr for message in messages)
