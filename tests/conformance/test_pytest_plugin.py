"""The pytest plugin, used as a kernel author does: in a directory of one's own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import SECONDS

KERNELS = """
import numpy as np
from vtcore.conformance import kernel

@kernel("scale", dtypes=["float32"])
def scale(x, factor):
    return np.asarray(x * np.float64(factor) + (x.ndim == 1), np.float32)
"""
OWN = "def test_of_my_own():\n    pass\n"


@pytest.fixture
def here(tmp_path):
    (tmp_path / "mine.py").write_text(KERNELS)
    (tmp_path / "test_own.py").write_text(OWN)
    return tmp_path


def run(here, *options):
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "vtcore.pytest_plugin", "-p", "no:cacheprovider", *options]
    return subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, timeout=SECONDS)


def test_each_case_is_a_test_with_a_name(here):
    done = run(here, "-v", "--vtcore-provider", "./mine.py")
    assert done.returncode == 1
    assert "mine.py::scale#0 PASSED" in done.stdout
    assert "mine.py::scale#4 FAILED" in done.stdout
    assert "mine.py::scale#fresh1 PASSED" in done.stdout
    assert "SKIPPED (x is float16; the kernel t" in done.stdout
    assert "test_own.py::test_of_my_own PASSED" in done.stdout
    assert "wrong_value: result[" in done.stdout
    assert "Traceback" not in done.stdout


def test_ops_can_be_named(here):
    done = run(here, "-q", "--vtcore-provider", "./mine.py", "--vtcore-ops", "relu", "test_own.py")
    assert done.returncode == 0
    assert "22 skipped" in done.stdout


def test_without_the_option_it_does_nothing(here):
    done = run(here, "-q")
    assert done.stdout.splitlines()[-1].startswith("1 passed")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--vtcore-provider", "./none.py"), "there is no provider file"),
        (("--vtcore-provider", "null", "--vtcore-ops", "x"), "there is no op 'x'"),
    ],
)
def test_what_cannot_be_checked_is_a_usage_error(here, options, words):
    done = run(here, "-q", *options)
    assert done.returncode == 4
    assert words in done.stderr + done.stdout
