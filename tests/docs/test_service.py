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
from vtcore.server.launch import DRAIN_SECONDS

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
    return [line.split(" ", 1) for line in page["dockerfile"].strip().splitlines()]


def test_the_unit_starts_a_server(service):
    program, *words = shlex.split(service["ExecStart"])
    assert Path(program).is_absolute()  # systemd asks for it
    args = parser().parse_args(words)
    assert (args.command.__module__, args.host) == ("vtcore.cli.serve", "0.0.0.0")
    assert service["Restart"] == "on-failure"


def test_the_unit_waits_for_what_is_being_answered(service):
    assert int(service["TimeoutStopSec"]) > DRAIN_SECONDS


def test_models_are_kept_where_each_says(service, steps, monkeypatch):
    name, _, path = service["Environment"].partition("=")
    monkeypatch.setenv(name, path)
    assert str(cache_directory()) == path == f"/var/cache/{service['CacheDirectory']}"
    [variable] = [rest for what, rest in steps if what == "ENV"]
    name, _, path = variable.partition("=")
    monkeypatch.setenv(name, path)
    assert str(cache_directory()) == path
    assert ["VOLUME", path] in steps


def test_the_image_starts_a_server_and_needs_no_compiler(steps):
    said = dict(steps)
    program, *words = json.loads(said["ENTRYPOINT"]) + json.loads(said["CMD"])
    args = parser().parse_args(words)
    assert (program, args.command.__module__, args.host, str(args.port)) == ("vtcore", "vtcore.cli.serve", "0.0.0.0", said["EXPOSE"])
    [run] = [rest for what, rest in steps if what == "RUN"]
    assert not re.search(r"apt|gcc|build-essential|cmake", run)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(re.findall(r"\[(.*?)\]", run)) <= set(extras)
