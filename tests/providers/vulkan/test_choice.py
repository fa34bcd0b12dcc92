"""Where Vulkan can't work, it says why, in words and at once."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.patience import SECONDS
from vtcore.errors import ArgumentError, ProviderUnavailableError
from vtcore.providers import find
from vtcore.providers.gpu.device import Limits
from vtcore.providers.vulkan import physical, reduced, staged

SAY = """
import sys
sys.modules.update({modules})
from vtcore.errors import ProviderUnavailableError
from vtcore.providers import find
try:
    find("vulkan")
except ProviderUnavailableError as error:
    print(error)
"""
LIMITS = Limits(1 << 27, 1 << 30, 1 << 15, 256)
SOFTWARE = physical.Physical(None, "llvmpipe", "software", (1, 3), "", LIMITS, 32)


def said(modules="{}", **environment) -> str:
    """What a process says that asks for Vulkan."""
    text = SAY.replace("{modules}", modules)
    ran = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, env=os.environ | environment, timeout=SECONDS, check=True
    )
    return ran.stdout.strip()


def test_without_the_package_it_says_what_to_install():
    assert said("{'vulkan': None}").endswith("pip install 'vtcore[vulkan]'")


def test_without_a_loader_it_says_so(tmp_path):
    (tmp_path / "libvulkan.so.1").touch()  # stands before the real one, and can't be loaded
    assert "there is no loader (libvulkan.so.1)" in said(LD_LIBRARY_PATH=str(tmp_path))


@pytest.mark.parametrize("text", ["rubbish", '{"file_format_version": "1.0.0", "ICD": {"library_path": "/nowhere.so"}}', ""])
def test_a_broken_driver_is_no_traceback(tmp_path, text):
    broken = tmp_path / "broken.json"
    broken.write_text(text)
    assert said(VK_DRIVER_FILES=str(broken), VK_ICD_FILENAMES=str(broken)).startswith("vulkan: no driver works here (VkError")


def test_no_device_is_said(monkeypatch):
    monkeypatch.setattr(physical.vk, "vkEnumeratePhysicalDevices", lambda instance: [])
    with pytest.raises(ProviderUnavailableError, match="the drivers show no device"):
        find("vulkan")


def test_an_old_driver_is_said_with_its_version():
    with pytest.raises(ProviderUnavailableError, match=r"version 1\.2 is needed; llvmpipe has 1\.1"):
        physical.choose([replace(SOFTWARE, version=(1, 1))], "")


def test_a_name_that_no_device_has_is_said_with_those_that_are_there(monkeypatch):
    monkeypatch.setenv(physical.CHOICE, "no such card")
    with pytest.raises(ProviderUnavailableError, match=r"VTCORE_VULKAN_DEVICE is 'no such card'.*there are .*llvmpipe"):
        find("vulkan")


def test_a_part_of_a_name_chooses_and_else_the_best_kind_does():
    cards = [replace(SOFTWARE, name="Card A", kind="discrete"), replace(SOFTWARE, name="Chip", kind="integrated"), SOFTWARE]
    assert physical.choose(cards, "").name == "Card A"
    assert physical.choose(cards, "chip").name == "Chip"
    assert physical.choose(cards, "LLVM").name == "llvmpipe"


def test_devices_are_shown_with_the_best_kind_first(monkeypatch):
    kinds = iter(["software", "other", "discrete", "integrated", "virtual"])
    monkeypatch.setattr(physical.vk, "vkEnumeratePhysicalDevices", lambda instance: range(5))
    monkeypatch.setattr(physical, "described", lambda handle: replace(SOFTWARE, kind=next(kinds)))
    assert [d.kind for d in physical.shown(None)] == ["discrete", "integrated", "virtual", "software", "other"]


def test_facts_name_the_device_and_say_that_it_is_software():
    provider = find("vulkan")
    assert "llvmpipe" in provider.facts["device"]
    assert "software" in provider.facts["device"]
    assert "Vulkan 1." in provider.facts["driver"]
    provider.close()


def test_staging_is_where_memory_is_apart_unless_it_is_said(monkeypatch):
    monkeypatch.delenv("VTCORE_VULKAN_STAGING", raising=False)
    assert (staged(True), staged(False)) == (False, True)
    monkeypatch.setenv("VTCORE_VULKAN_STAGING", "1")
    assert staged(True)
    monkeypatch.setenv("VTCORE_VULKAN_STAGING", "yes")
    with pytest.raises(ArgumentError, match="VTCORE_VULKAN_STAGING is 'yes'; it must be 0 or 1"):
        find("vulkan")


def test_subgroups_are_used_where_they_are_unless_it_is_said(monkeypatch):
    able = replace(SOFTWARE, limits=replace(LIMITS, subgroups=8))
    monkeypatch.delenv("VTCORE_VULKAN_SUBGROUPS", raising=False)
    assert reduced(able) == able
    assert reduced(SOFTWARE) == SOFTWARE
    monkeypatch.setenv("VTCORE_VULKAN_SUBGROUPS", "0")
    assert reduced(able) == SOFTWARE
    monkeypatch.setenv("VTCORE_VULKAN_SUBGROUPS", "1")
    assert reduced(able) == able
    with pytest.raises(ArgumentError, match="VTCORE_VULKAN_SUBGROUPS is '1', and llvmpipe has no subgroups"):
        reduced(SOFTWARE)
    monkeypatch.setenv("VTCORE_VULKAN_SUBGROUPS", "yes")
    with pytest.raises(ArgumentError, match="VTCORE_VULKAN_SUBGROUPS is 'yes'; it must be 0 or 1"):
        find("vulkan")


@pytest.mark.parametrize("wanted", ["0", "1"])
def test_a_device_says_whether_it_uses_subgroups(monkeypatch, wanted):
    monkeypatch.setenv("VTCORE_VULKAN_SUBGROUPS", wanted)
    provider = find("vulkan")
    assert (provider.device.limits.subgroups > 0) == (wanted == "1")
    provider.close()
