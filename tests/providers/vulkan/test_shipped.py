"""What the package ships for Vulkan is made of today's kernels."""

import os
import subprocess
import sys
from pathlib import Path

from tests.patience import SECONDS

ROOT = Path(__file__).parents[3]


def test_the_shipped_spirv_is_of_today_s_texts():
    command, environment = [sys.executable, "tools/build_spirv.py", "--check"], os.environ | {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=5 * SECONDS, check=False)
    assert ran.returncode == 0, ran.stderr  # which says the command that builds it again
