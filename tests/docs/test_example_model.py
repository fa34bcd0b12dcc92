"""The example package is what the page shows; installed, its architecture is found, and its own test passes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.examples import read
from tests.patience import SECONDS

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "example-model"
INSTALL = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Python with the package installed in a folder of its own."""
    folder = tmp_path_factory.mktemp("example")
    sources = folder / "source"
    sources.mkdir()
    for file in EXAMPLE.iterdir():
        if file.is_file():
            (sources / file.name).write_bytes(file.read_bytes())
    subprocess.run([*INSTALL, "--target", str(folder / "site"), str(sources)], check=True, timeout=5 * SECONDS)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder / "site"), str(ROOT)])}

    def python(*arguments):
        done = subprocess.run(
            [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=5 * SECONDS
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return python


@pytest.mark.parametrize("name", ["scaled_values.py", "pyproject.toml"])
def test_the_page_shows_the_files(name):
    assert read(ROOT / "docs" / "add-a-model.md").files[name] == f"# {name}\n" + (EXAMPLE / name).read_text(encoding="utf-8")


def test_it_is_short():
    assert len((EXAMPLE / "scaled_values.py").read_text(encoding="utf-8").splitlines()) < 30


def test_the_command_finds_it(run):
    assert "in           scaled_values\n" in run("-m", "vtcore", "models", "ScaledValuesForCausalLM")


def test_its_own_test_passes(run):
    assert "4 passed" in run("-m", "pytest", "-p", "no:cacheprovider", "source/test_scaled_values.py")
