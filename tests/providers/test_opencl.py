"""OpenCL on whatever driver there is: what it can't do it says in words."""

import gc
import json
import os
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace
from weakref import ref

import numpy as np
import pyopencl as cl
import pytest

from tests.providers.recorded import two_norms
from vtcore import LLM
from vtcore.dispatch import Dispatcher
from vtcore.errors import DeclinedError, OutOfMemoryError, ProviderError, ProviderUnavailableError
from vtcore.ops import add, embedding, mul, rms_norm
from vtcore.providers import ProviderOptions, find
from vtcore.providers.kernels.targets import opencl as target
from vtcore.providers.opencl import CHOICE, choose, devices, make
from vtcore.tensor import of

FINDS = """
import json, time
from vtcore.errors import ProviderUnavailableError
from vtcore.providers import find
began = time.perf_counter()
try:
    find("opencl")
except ProviderUnavailableError as error:
    print(json.dumps([str(error), time.perf_counter() - began]))
"""


@pytest.fixture
def provider():
    made = make(ProviderOptions())
    yield made
    made.close()


def elsewhere(code, **variables):
    run = subprocess.run([sys.executable, "-c", code], env=os.environ | variables, capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def test_without_a_driver_it_is_declined_in_words(tmp_path):
    said, _ = elsewhere(FINDS, OCL_ICD_VENDORS=str(tmp_path), OPENCL_VENDOR_PATH=str(tmp_path))
    assert "no driver works here" in said or "show no device" in said


def test_a_driver_that_is_rubbish_is_declined_in_words(tmp_path):
    (tmp_path / "broken.icd").write_text("/nowhere/libbroken.so\n")
    said, _ = elsewhere(FINDS, OCL_ICD_VENDORS=str(tmp_path), OPENCL_VENDOR_PATH=str(tmp_path))
    assert said.startswith("opencl: ")


def test_a_device_that_nobody_has_is_named_with_those_there_are(monkeypatch):
    monkeypatch.setenv(CHOICE, "Voodoo 2")
    with pytest.raises(ProviderUnavailableError, match=r"VTCORE_OPENCL_DEVICE is 'Voodoo 2', which no device's name holds; there are \w+"):
        find("opencl")


def test_without_the_package_it_is_declined_in_words():
    code = "import sys; sys.modules['pyopencl'] = None\n" + FINDS
    said, _ = elsewhere(code)
    assert said.startswith("opencl: the package pyopencl can't be imported")
    assert said.endswith("pip install 'vtcore[opencl]'")


def test_a_kernel_that_does_not_build_leaves_its_op_to_the_next(provider, monkeypatch):
    whole = target.source
    monkeypatch.setattr(
        target, "source", lambda k: whole(k).replace("#define LD_x", "#define LD_q") if k.name.startswith("vt_rms_norm") else whole(k)
    )
    x, weight = of(np.ones((2, 8), np.float32)), of(np.full(8, 3, np.float32))
    with Dispatcher([provider]) as d:
        assert (add(rms_norm(x, weight, 0.0), x).numpy() == 4).all()
        rms_norm(x, weight, 0.0)
    (declined,) = d.report().declined
    assert declined.op == "rms_norm"
    assert declined.calls == 2
    assert "kernel vt_rms_norm_f32 can't be built for " in declined.reason
    assert "LD_x" in declined.reason
    assert {(r.op, r.provider) for r in d.report().ran} == {("rms_norm", "reference"), ("add", "opencl")}
    with Dispatcher([provider], strict=True), pytest.raises(DeclinedError, match="can't be built"):
        rms_norm(x, weight, 0.0)


def test_a_kernel_whose_groups_are_too_large_for_the_device_leaves_its_op_to_the_next(provider, monkeypatch):
    monkeypatch.setattr(cl.Kernel, "get_work_group_info", lambda self, what, device: 32)
    with Dispatcher([provider]) as d:
        for _ in range(2):
            rms_norm(of(np.ones((2, 8), np.float32)), None, 0.0)
    (declined,) = d.report().declined
    assert declined.calls == 2
    assert "rms_norm: kernel vt_rms_norm_f32 can't be run on " in declined.reason
    assert "its groups have 256 work items, of which the device holds 32" in declined.reason


def test_no_more_room_is_an_error_with_the_sum(provider):
    with pytest.raises(OutOfMemoryError, match=r"opencl: [\d,]+ bytes more don't fit: [\d,]+ of [\d,]+ bytes are taken"):
        provider.device.alloc(1 << 50)


def test_a_plan_is_held_against_the_room_of_the_device(tmp_path, provider):
    path = tmp_path / "small.py"
    path.write_text(
        "from vtcore.providers.opencl import make as opencl\n"
        "def make(options):\n    provider = opencl(options)\n    provider.device.capacity = 1 << 20\n    return provider\n"
    )
    with pytest.raises(OutOfMemoryError, match=r"may have 1\.0 MiB"):
        LLM("smollm2-135m", providers=str(path))


@pytest.mark.parametrize("shares", [True, False], ids=["one memory", "two memories"])
def test_arrays_come_back_as_they_went(provider, shares):
    provider.device.shares = shares
    x = of(np.arange(1 << 19, dtype=np.float32).reshape(2, -1))
    with Dispatcher([provider]) as d:
        y = mul(x, x)
        assert np.array_equal(y.numpy(), x.numpy() ** 2)
    assert sum(c.nbytes for c in d.report().copied) == (0 if shares else x.nbytes)


def test_what_cannot_be_written_is_read_where_it_lies(provider):
    host = np.arange(64, dtype=np.float32)
    host.flags.writeable = False
    with Dispatcher([provider]):
        assert np.array_equal(add(of(host), of(host)).numpy(), 2 * host)


@pytest.mark.parametrize("name", ["opencl", "vulkan"])
def test_a_result_that_no_kernel_can_see_as_a_whole_is_computed_elsewhere(name):
    provider = find(name)
    provider.device.limits = replace(provider.device.limits, binding=2000)
    dispatcher, table = Dispatcher([provider]), np.arange(400, dtype=np.float32).reshape(4, 100)
    try:
        with dispatcher:
            few, many = (embedding(of(table), of(np.full(n, 3, np.int32))).numpy() for n in (5, 6))
        assert (few == table[3]).all()
        assert (many == table[3]).all()
        (declined,) = dispatcher.declines
        assert (declined.op, dispatcher.ran) == ("embedding", {("embedding", name): 1, ("embedding", "reference"): 1})
        assert "2,400 bytes; a kernel of this device sees at most 2,000" in declined.reason
    finally:
        provider.close()


@pytest.mark.parametrize("shares", [True, False], ids=["one memory", "two memories"])
def test_a_buffer_larger_than_any_is_no_room(provider, shares):
    provider.device.shares = shares
    with pytest.raises(OutOfMemoryError, match="more don't fit"):
        provider.device.alloc(1 << 60)


def test_one_broken_driver_does_not_hide_the_others(monkeypatch):
    class Broken:
        name = "Broken"

        def get_devices(self):
            raise cl.LogicError("get_devices", -30)

    there = cl.get_platforms()
    monkeypatch.setattr(cl, "get_platforms", lambda: [Broken(), *there])
    assert devices()
    monkeypatch.setattr(cl, "get_platforms", lambda: [Broken()])
    with pytest.raises(ProviderUnavailableError, match="the drivers show no device; Broken: "):
        devices()


class Described:
    """A device as a driver describes it."""

    platform = SimpleNamespace(name="Old Platform")

    def __init__(self, name, version="OpenCL 3.0 x", available=True, compiler=True):
        self.name, self.version, self.available, self.compiler_available = name, version, available, compiler


@pytest.mark.parametrize(
    ("device", "words"),
    [
        (Described("Elder", "OpenCL 1.1 CUDA"), "Elder has OpenCL 1.1 CUDA; from OpenCL 1.2 on is supported"),
        (Described("Nobody", ""), "Nobody has no version; from OpenCL 1.2"),
        (Described("Away", available=False), "Away is not available, its driver says"),
        (Described("Mute", compiler=False), "Mute has a driver without a compiler"),
    ],
)
def test_a_device_that_can_run_no_kernel_is_declined_and_another_taken(device, words):
    with pytest.raises(ProviderUnavailableError, match=f"^opencl: {words}"):
        choose([device], "")
    able = Described("Able", "OpenCL 1.2 y")
    assert choose([device, able], "old platform") is able
    with pytest.raises(ProviderUnavailableError, match=words):
        choose([device, able], device.name)


def test_a_device_that_its_driver_refuses_is_declined_in_words(monkeypatch):
    def refuse(devices):
        raise cl.LogicError("clCreateContext", cl.status_code.DEVICE_NOT_AVAILABLE)

    monkeypatch.setattr(cl, "Context", refuse)
    with pytest.raises(ProviderUnavailableError, match=r"opencl: .* can't be opened: "):
        find("opencl")


def test_a_copy_that_the_driver_refuses_is_told_in_words(provider):
    held = provider.device.alloc(64)
    with pytest.raises(ProviderError, match="opencl: an upload failed on "):
        provider.device.upload(held, 1 << 20, np.zeros(64, np.uint8))
    with pytest.raises(ProviderError, match="opencl: a download failed on "):
        provider.device.download(held, 1 << 20, np.zeros(64, np.uint8))


def test_what_is_asked_of_a_closed_device_is_refused_in_words(provider):
    capture, *_ = two_norms(provider.device, "opencl")
    provider.close()
    provider.close()
    held, back = provider.device.adopt(np.zeros(64, np.uint8)), np.zeros(8, np.uint8)
    asked = (
        capture.replay,
        provider.device.synchronize,
        lambda: provider.device.alloc(1 << 13),
        lambda: provider.device.download(held, 0, back),
        lambda: two_norms(provider.device, "opencl"),
    )
    for ask in asked:
        with pytest.raises(ProviderError, match=r"opencl: .* was closed, and what it held is gone: load the model again"):
            ask()


def test_a_closed_device_has_no_kernels_and_no_buffers_that_wait(provider):
    device = provider.device
    two_norms(device, "opencl")
    gc.collect()
    provider.close()
    assert (device.made, device.home.nbytes, device.lasting.nbytes) == (0, 0, 0)
    assert (device._kept, device._eager, device._programs) == ([], {}, {})


@pytest.mark.parametrize("name", ["opencl", "vulkan"])
def test_a_device_that_is_dropped_goes_with_all_that_was_recorded_on_it(name):
    provider = find(name)
    used, gone = two_norms(provider.device, name), ref(provider.device)
    del provider
    gc.collect()
    assert gone() is not None
    del used
    gc.collect()
    assert gone() is None
