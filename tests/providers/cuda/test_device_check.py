import device_check
import pytest

from tests.providers.cuda.fake import FakeDriver
from tests.providers.cuda.fake_cublas import fast_provider
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


@pytest.fixture
def quick(monkeypatch):
    """No samples, which other tests run, and small products."""
    monkeypatch.setattr(device_check, "check", lambda provider, names, fuzz: ())
    monkeypatch.setattr(device_check, "PRODUCT", (32, 24, 40))


def test_products_of_both_kinds_are_timed_and_judged(monkeypatch, provider, quick):
    fast, _, library = fast_provider()
    monkeypatch.setattr(device_check, "find", lambda name, options: fast)
    out = device_check.products(provider)
    assert out["wrong"] == []
    assert out["by"].startswith("cuBLASLt 13.10.0")
    assert out["bfloat16"].keys() == {"cublaslt_ms", "cublaslt_error", "own_ms", "own_error"}
    assert library.multiplied > 0


def test_a_product_that_the_library_refuses_is_wrong(monkeypatch, provider, quick):
    fast, _, library = fast_provider()
    library.failing = {"matmul": 15}
    monkeypatch.setattr(device_check, "find", lambda name, options: fast)
    assert "NOT_SUPPORTED" in device_check.products(provider)["wrong"][0]


def test_products_without_the_library_are_left_out(monkeypatch, provider):
    def missing():
        raise ProviderUnavailableError("cuBLASLt: it isn't here")

    monkeypatch.setattr(device_check, "find", lambda name, options: fast_provider(missing)[0])
    assert device_check.products(provider) == {"left_out": "cuBLASLt: it isn't here"}
