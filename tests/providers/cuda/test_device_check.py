import device_check
import pytest

from tests.providers.cuda.fake import FakeDriver
from vtcore.errors import ProviderUnavailableError
from vtcore.providers.cuda.device import CUDA
from vtcore.providers.cuda.driver import Driver
from vtcore.providers.gpu.provider import Accelerator


def test_without_a_device_it_says_why(monkeypatch):
    def find(name):
        raise ProviderUnavailableError("cuda: there is no NVIDIA driver")

    monkeypatch.setattr(device_check, "find", find)
    assert device_check.report(10.0) == (device_check.NO_DEVICE, {"device": None, "why": "cuda: there is no NVIDIA driver"})


@pytest.fixture
def provider():
    device = CUDA(Driver(FakeDriver()), 0, "sm_90", lambda source, architecture: source.encode())
    return Accelerator("cuda", device, {"device": "none"})


def test_parts_are_reported(monkeypatch, provider):
    monkeypatch.setattr(device_check, "find", lambda name: provider)
    monkeypatch.setattr(device_check, "PARTS", (device_check.launches,))
    monkeypatch.setattr(device_check, "LAUNCHES", 10)
    status, out = device_check.report(10.0)
    assert status == 0
    assert out["launches"]["eager_us"] > 0 < out["launches"]["replayed_us"]
    assert device_check.report(-1.0)[1]["launches"] == {"left_out": "-1 s are over"}
