import gc
import os
import threading

import numpy as np
import pytest

from tests.providers.cuda.fake import FULL, ILLEGAL, NO_BINARY, FakeDriver
from tests.providers.recorded import negate, two_norms
from vtcore import ops
from vtcore.assembly import limit_of
from vtcore.conformance.case import cases
from vtcore.conformance.trial import run
from vtcore.dispatch import Dispatcher
from vtcore.errors import OutOfMemoryError, ProviderError, ProviderUnavailableError
from vtcore.providers import cuda
from vtcore.providers.cuda.device import CUDA
from vtcore.providers.cuda.driver import Driver
from vtcore.providers.cuda.staging import SIZE, SLOTS
from vtcore.providers.gpu.provider import Accelerator
from vtcore.tensor import of

RNG = np.random.default_rng(0)


@pytest.fixture
def module():
    return FakeDriver()


@pytest.fixture
def device(module):
    return CUDA(Driver(module), 0, "sm_90", lambda source, architecture: source.encode())


def test_ops_samples_come_out_right(device):
    provider = Accelerator("cuda", device, {})
    assert [run(provider, case).outcome for case in cases(ops.rms_norm)] == ["pass"] * len(list(cases(ops.rms_norm)))


@pytest.mark.feature("Recorded decode steps")
def test_a_recorded_step_is_one_graph(device, module):
    capture, x, y = two_norms(device, "cuda")
    first = y.numpy().copy()
    negate(x, device)
    before = len(module.calls)
    capture.replay()
    assert module.calls[before:].count("cuGraphLaunch") == 1
    assert "cuLaunchKernel" not in module.calls[before:]
    assert np.array_equal(y.numpy(), -first)


def test_what_fails_in_a_capture_ends_it(device, module):
    class Failing:
        def enqueue(self, driver, stream):
            raise ProviderError("no more")

    with pytest.raises(ProviderError, match="no more"):
        device.seal([Failing()])
    assert module.calls[-3:] == ["cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphDestroy"]


def test_uploads_of_several_parts_arrive(device):
    host = RNG.integers(0, 255, SIZE + 1000, np.uint8)
    held = device.alloc(host.nbytes)
    device.upload(held, 0, host)
    back = np.empty_like(host)
    device.download(held, 0, back)
    assert np.array_equal(host, back)
    device.copy(held, 0, 512, 256)
    device.download(held, 512, back[:256])
    assert np.array_equal(back[:256], host[:256])


def test_a_full_device_is_told_with_the_sums(module):
    device = CUDA(Driver(module), 0, "sm_90", lambda source, architecture: source.encode())
    with pytest.raises(OutOfMemoryError, match="2,147,483,648 bytes more don't fit: 0 are taken here, and 1,073,741,824 of the device's"):
        device.alloc(1 << 31)


def test_memory_that_nobody_has_any_more_is_given_back_once_the_stream_is_done(device, module):
    pinned = len(module.blocks)
    device.release(device.alloc(3 << 20))  # what lasted is not kept for others
    assert len(module.blocks) == pinned + 1
    device.synchronize()
    assert (len(module.blocks), device.made) == (pinned, 0)
    capture, *results = two_norms(device, "cuda")
    taken, made = len(module.blocks), capture.nbytes
    assert made
    del capture, results
    device.synchronize()
    assert len(module.blocks) < taken
    assert sum(map(len, module.blocks.values())) == device.made


def test_a_model_may_have_what_the_device_holds(device, module):
    assert limit_of([Accelerator("cuda", device, {})], 1 << 40) == module.memory


def test_after_an_error_that_stays_every_call_raises(device, module):
    module.failing["cuStreamSynchronize"] = ILLEGAL
    with pytest.raises(ProviderError, match="cuStreamSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS"):
        device.synchronize()
    module.failing.clear()
    with pytest.raises(ProviderError, match=r"failed earlier \(cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS\).*start the process anew"):
        device.alloc(16)
    device.close()


@pytest.fixture
def used(device):
    """A device that holds something of every kind, and a step that was recorded on it."""
    return two_norms(device, "cuda")[0]


@pytest.mark.parametrize("others", [0, 1])
def test_a_closed_device_gives_back_what_it_made_and_no_more(device, module, used, others):
    device.alloc(1 << 20)
    kept = [CUDA(Driver(module), 0, "sm_90", lambda source, architecture: source.encode()) for _ in range(others)]
    assert set(module.held) == {"context", "stream", "memory", "pinned memory", "event", "module", "graph", "executable"}
    device.close()
    device.close()
    theirs = {"context": 1, "stream": 1, "pinned memory": 1, "event": SLOTS} if kept else {}
    assert +module.held == theirs
    for ask in (used.replay, device.synchronize, lambda: device.alloc(16)):
        with pytest.raises(ProviderError, match="cuda: the device was closed, and what it held is gone"):
            ask()


def test_a_device_that_is_dropped_is_closed(module):
    used = two_norms(CUDA(Driver(module), 0, "sm_90", lambda source, architecture: source.encode()), "cuda")
    gc.collect()
    assert module.held["executable"]
    del used
    gc.collect()
    assert +module.held == {}


@pytest.mark.parametrize("failing", ["cuDevicePrimaryCtxRetain", "cuStreamCreate", "cuMemGetInfo", "cuMemHostAlloc", "cuEventCreate"])
def test_a_device_that_does_not_open_leaves_nothing(module, failing):
    module.failing[failing] = FULL
    with pytest.raises(OutOfMemoryError):
        CUDA(Driver(module), 0, "sm_90", lambda source, architecture: source.encode())
    assert +module.held == {}


def test_a_graph_that_is_not_made_leaves_nothing(device, module):
    module.failing["cuGraphInstantiate"] = FULL
    with pytest.raises(OutOfMemoryError):
        device.seal([])
    assert module.held["graph"] == 0


def test_a_thread_that_works_on_two_devices_changes_between_their_contexts(device, module):
    other = CUDA(Driver(module), 1, "sm_90", lambda source, architecture: source.encode())
    device.synchronize()
    before = len(module.calls)
    for each in (other, device, other):
        each.synchronize()
    assert module.calls[before:] == ["cuCtxSetCurrent", "cuStreamSynchronize"] * 3


def test_a_device_of_the_process_that_this_one_was_forked_from_is_refused(device, module, monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: -1)
    before = len(module.calls)
    with pytest.raises(ProviderError, match="cuda: the device was opened by the process that this one was forked from"):
        device.alloc(16)
    device.close()
    assert len(module.calls) == before


def test_another_thread_works_in_the_same_context(device, module):
    before = len(module.calls)
    thread = threading.Thread(target=device.synchronize)
    thread.start()
    thread.join()
    device.synchronize()
    assert module.calls[before:] == ["cuCtxSetCurrent", "cuStreamSynchronize", "cuStreamSynchronize"]


def test_what_the_compiler_refuses_once_names_op_and_kernel(module):
    asked = []

    def refuse(source, architecture):
        asked.append(architecture)
        raise ProviderError(f"no for {architecture}")

    provider = Accelerator("cuda", CUDA(Driver(module), 0, "sm_90", refuse), {})
    for _ in range(2):
        verdict = run(provider, next(iter(cases(ops.rms_norm))))
        assert "rms_norm: cuda: kernel vt_rms_norm_f32: no for sm_90" in verdict.reason
    assert asked == ["sm_90"]


def test_what_the_driver_does_not_load_runs_elsewhere(module, monkeypatch):
    monkeypatch.setattr(module, "cuModuleLoadData", lambda image: (NO_BINARY, None))
    provider = Accelerator("cuda", CUDA(Driver(module), 0, "sm_90", lambda source, architecture: b"old"), {})
    x = of(np.ones((2, 8), np.float32))
    with Dispatcher([provider]) as d:
        for _ in range(2):
            assert (ops.rms_norm(x, None, 0.0).numpy() == 1).all()
    ((decline, times),) = d.declines.items()
    assert times == 2
    assert "rms_norm: cuda: kernel vt_rms_norm_f32: cuda: cuModuleLoadData failed: CUDA_ERROR_NO_BINARY_FOR_GPU" in decline.reason


def test_a_device_is_chosen_by_name_or_number(monkeypatch, module):
    driver = Driver(module)
    assert cuda.chosen(driver) == (0, "Device A")
    monkeypatch.setenv(cuda.CHOICE, "e b")
    assert cuda.chosen(driver) == (1, "Device B")
    monkeypatch.setenv(cuda.CHOICE, "1")
    assert cuda.chosen(driver) == (1, "Device B")
    monkeypatch.setenv(cuda.CHOICE, "7")
    with pytest.raises(ProviderUnavailableError, match="'7', which is no device's number or part of a name; there are Device A; Device B"):
        cuda.chosen(driver)
