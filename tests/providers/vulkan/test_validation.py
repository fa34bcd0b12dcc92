"""Khronos's validation layer, with its look at barriers, has nothing to say of what the provider does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import SECONDS

ROOT = Path(__file__).parents[3]
SETTINGS = """
khronos_validation.report_flags = error,warn,perf
khronos_validation.enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT
khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG
khronos_validation.log_filename = stdout
"""


def said(folder, *arguments, staging="0"):
    """What a process says under the layer."""
    (folder / "vk_layer_settings.txt").write_text(SETTINGS)
    layer = {"VK_INSTANCE_LAYERS": "VK_LAYER_KHRONOS_validation", "VK_LAYER_SETTINGS_PATH": str(folder), "VTCORE_VULKAN_STAGING": staging}
    command = [sys.executable, "-m", "tests.providers.vulkan.validated", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=os.environ | layer, timeout=5 * SECONDS, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return [line for line in (ran.stdout + ran.stderr).splitlines() if line.strip()]


@pytest.mark.parametrize("staging", ["0", "1"])
def test_it_has_nothing_to_say(tmp_path, staging):
    lines = said(tmp_path, staging=staging)
    assert lines == [lines[-1]]
    assert lines[-1].endswith("calls ran")


def test_it_would_tell(tmp_path):
    assert any("VUID-vkCmdUpdateBuffer-dstOffset-00036" in line for line in said(tmp_path, "wrong"))
