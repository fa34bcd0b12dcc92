"""Oclgrind looks at every access of every kernel: none is out of bounds, none races."""

import os
import subprocess
import sys
from pathlib import Path

from tests.patience import SECONDS

ROOT = Path(__file__).parents[3]
WITHOUT_A_BARRIER = """
from tests.providers.gpu import grind
from vtcore.providers.kernels.targets import reductions
reductions.TREE = reductions.TREE.replace("= v;\\n    BARRIER();", "= v;")
grind.main(["rms_norm"])
"""


def ground(tmp_path, *command):
    """What Oclgrind says of a Python program."""
    log, environment = tmp_path / "log", os.environ | {"VTCORE_OPENCL_DEVICE": "oclgrind"}
    line = ["oclgrind", "--data-races", "--log", log, sys.executable, *command]
    subprocess.run(line, cwd=ROOT, env=environment, check=True, timeout=5 * SECONDS)
    return log.read_text()


def test_no_kernel_races_or_leaves_its_arrays(tmp_path):
    assert ground(tmp_path, "-m", "tests.providers.gpu.grind") == ""


def test_a_barrier_that_is_missed_is_found(tmp_path):
    said = ground(tmp_path, "-c", WITHOUT_A_BARRIER)
    assert "data race" in said
    assert "vt_rms_norm" in said
