"""The systemd unit and the Dockerfile of docs/serve.md: what they say to vtcore is what it understands."""

import configparser
import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from vtcore.caches import cache_directory
from vtcore.cli import parser
from vtcore.server.draining import DRAIN_SECONDS, LAST_WORDS
from vtcore.server.listening import PORT
from vtcore.server.process import STOP_SECONDS
from vtcore.server.tracing import CLOSE_SECONDS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def page():
    """Its examples by language."""
    return dict(re.findall(r"^```(ini|dockerfile)\n(.*?)^```$", (ROOT / "docs/serve.md").read_text(), re.MULTILINE | re.DOTALL))


@pytest.fixture(scope="module")
def service(page):
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str
    unit.read_string(page["ini"])
    return unit["Service"]


@pytest.fixture(scope="module")
def steps(page):
    """(INSTRUCTION, rest) of each line of the Dockerfile."""
    return [line.split(" ", 1) for line in page["dockerfile"].splitlines() if line]


def test_the_unit_starts_a_server(service):
    program, *words = shlex.split(service["ExecStart"])
    assert Path(program).is_absolute()  # systemd asks for it
    args = parser().parse_args(words)
    assert (args.command.__module__, args.host) == ("vtcore.cli.serve", "0.0.0.0")
    assert service["Restart"] == "on-failure"


def test_the_unit_waits_for_what_is_being_answered(service):
    assert int(service["TimeoutStopSec"]) > DRAIN_SECONDS + LAST_WORDS + STOP_SECONDS + CLOSE_SECONDS


def test_models_are_kept_where_each_says(service, steps, monkeypatch):
    kept = variables(service["Environment"])
    monkeypatch.setenv("VTCORE_CACHE", kept["VTCORE_CACHE"])
    assert str(cache_directory()) == f"/var/cache/{service['CacheDirectory']}"
    assert Path(kept["HF_HOME"]).parent == cache_directory()
    [said] = [rest for what, rest in steps if what == "ENV"]
    kept = variables(said)
    monkeypatch.setenv("VTCORE_CACHE", kept["VTCORE_CACHE"])
    assert Path(kept["HF_HOME"]).parent == cache_directory()
    assert ["VOLUME", kept["VTCORE_CACHE"]] in steps


def variables(said):
    """NAME=VALUE ... by name."""
    return dict(word.split("=", 1) for word in said.split())


def test_the_image_starts_a_server_and_needs_no_compiler(steps):
    said = dict(steps)
    program, *words = json.loads(said["ENTRYPOINT"]) + json.loads(said["CMD"])
    args = parser().parse_args(words)
    assert (program, args.command.__module__, args.host, args.port) == ("vtcore", "vtcore.cli.serve", "0.0.0.0", None)
    assert said["EXPOSE"] == str(PORT)
    assert f"127.0.0.1:{PORT}/health" in said["HEALTHCHECK"]
    run = "\n".join(rest for what, rest in steps if what == "RUN")
    assert not re.search(r"apt|gcc|build-essential|cmake", run)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    [asked] = re.findall(r"\[(.*?)\]", run)
    assert set(asked.split(",")) <= set(extras)
    assert ["USER", "vtcore"] in steps
