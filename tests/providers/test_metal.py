import gc
import sys
from weakref import ref

import numpy as np
import pytest

from tests.checkpoints import random_llama
from tests.providers.fake_metal import FakeDevice, FakeMetal, FakeObjC
from tests.providers.recorded import negate, two_norms
from vtcore import LLM, ops
from vtcore.assembly import limit_of
from vtcore.conformance.case import cases
from vtcore.conformance.trial import run
from vtcore.dispatch import Dispatcher
from vtcore.errors import OutOfMemoryError, ProviderError, ProviderUnavailableError
from vtcore.providers import find
from vtcore.providers.gpu.provider import Accelerator
from vtcore.providers.kernels.declare import KERNELS
from vtcore.providers.metal import WIDEST, Metal
from vtcore.tensor import of

RNG = np.random.default_rng(0)


@pytest.fixture
def system():
    return FakeDevice()


@pytest.fixture
def device(system):
    return Metal(FakeMetal(system), system, system.objc.autorelease_pool)


def normed(provider, strict=True):
    x, w = of(RNG.standard_normal((3, 8)).astype(np.float32)), of(np.ones(8, np.float32))
    with Dispatcher([provider], strict=strict) as dispatcher:
        y = ops.rms_norm(x, w, 1e-6).numpy()
    want = x.numpy() / np.sqrt(np.mean(x.numpy() ** 2, axis=1, keepdims=True) + 1e-6)
    assert np.allclose(y, want, atol=1e-6)
    return dispatcher


@pytest.mark.parametrize("op", [ops.rms_norm, ops.softmax, ops.embedding], ids=lambda op: op.name)
def test_ops_samples_come_out_right(device, op):
    verdicts = [run(Accelerator("metal", device, {}), case) for case in cases(op)]
    assert {v.outcome for v in verdicts} == {"pass"}


def test_what_is_uploaded_comes_back_and_moves(device):
    host = RNG.integers(0, 255, 3000, np.uint8)
    held = device.alloc(4096)
    device.upload(held, 512, host)
    back = np.empty_like(host)
    device.download(held, 512, back)
    assert np.array_equal(host, back)
    device.copy(held, 512, 600, 1000)  # they overlap
    device.download(held, 600, back[:1000])
    assert np.array_equal(back[:1000], host[:1000])


def test_a_piece_that_is_taken_again_is_cleared_where_that_is_asked(device):
    held = device.alloc(1024)
    device.upload(held, 0, np.full(1024, 7, np.uint8))
    device.release(held)
    again, back = device.alloc(1024, zero=True), np.ones(1024, np.uint8)
    device.download(again, 0, back)
    assert again.buffer is held.buffer
    assert not back.any()


def test_launches_wait_in_one_command_buffer_until_somebody_reads(device, system):
    x, w = of(RNG.standard_normal((3, 8)).astype(np.float32)), of(np.ones(8, np.float32))
    with Dispatcher([Accelerator("metal", device, {})], strict=True):
        y = ops.rms_norm(ops.rms_norm(x, w, 1e-6), w, 1e-6)
        assert system.committed == []
        y.numpy()
    (commands,) = system.committed
    assert [name for _, name, *_ in commands.launches] == ["vt_rms_norm_f32"] * 2


def test_an_upload_waits_for_the_launches_that_read_what_was_there(device):
    x, w = of(RNG.standard_normal((3, 8)).astype(np.float32)), of(np.ones(8, np.float32))
    with Dispatcher([Accelerator("metal", device, {})], strict=True):
        y = ops.rms_norm(x, w, 1e-6)
        device.upload(x.storage.copies[device], 0, np.zeros(96, np.uint8))
    assert np.abs(y.numpy()).max() > 0.1


def test_a_recorded_step_is_one_command_buffer(device, system):
    capture, x, y = two_norms(device, "metal")
    first = y.numpy().copy()
    negate(x, device)
    before = len(system.committed)
    capture.replay()
    assert np.array_equal(y.numpy(), -first)
    assert [len(c.launches) for c in system.committed[before:]] == [2]


def test_many_groups_lie_on_two_axes(device):
    kernel = KERNELS["vt_rms_norm"].of("f32")
    buffers = [device.alloc(256).buffer for _ in kernel.buffers]
    values = [0] * len(kernel.parameters)
    assert device.bind(kernel, buffers, values, WIDEST).grid == (WIDEST, 1)
    assert device.bind(kernel, buffers, values, WIDEST + 1).grid == (WIDEST, 2)


def test_a_command_buffer_that_fails_is_told_once(device, system):
    system.failing = "the GPU hung"
    with pytest.raises(ProviderError, match="metal: the device failed: the GPU hung"):
        normed(Accelerator("metal", device, {}))
    system.failing = None
    device.synchronize()
    normed(Accelerator("metal", device, {}))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"refusing": "error: no type named 'half5'"}, "doesn't compile: error: no type named 'half5'"),
        ({"without": "error: no type named 'half5'"}, "has no pipeline: error: no type named 'half5'"),
        ({"most": 32}, "has groups of 256 work items, of which the device holds 32"),
    ],
)
def test_an_op_whose_kernel_cannot_be_built_runs_elsewhere(device, system, fault, said):
    vars(system).update(fault)
    provider = Accelerator("metal", device, {})
    normed(provider, strict=False)
    dispatcher = normed(provider, strict=False)
    assert len(system.compiled) == 1  # it isn't tried again
    assert dispatcher.ran["rms_norm", "reference"] == 1
    assert [d.reason for d in dispatcher.declines] == [f"rms_norm: metal: kernel vt_rms_norm_f32 {said}"]


def test_a_full_device_is_told_with_the_sums(device):
    device.alloc(1 << 20)
    with pytest.raises(OutOfMemoryError, match="metal: 1,073,741,824 bytes more don't fit: 1,048,576 of 1,073,741,824 bytes are taken"):
        device.alloc(1 << 30)


def test_a_model_may_have_what_the_system_recommends(device, system):
    provider = Accelerator("metal", device, {})
    assert limit_of([provider], 1 << 40) == system.memory
    assert limit_of([provider], system.memory // 2) == system.memory // 2


def test_a_model_that_does_not_fit_is_refused_with_the_sum(system, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    system.memory = 1 << 19
    for name, module in (("Metal", FakeMetal(system)), ("objc", system.objc)):
        monkeypatch.setitem(sys.modules, name, module)
    with pytest.raises(OutOfMemoryError, match=r"the model needs .*, and may have 512.0 KiB: .* weights"):
        LLM(random_llama(tmp_path), providers="metal")
    assert system.taken == 0


def test_what_metal_hands_out_for_a_moment_does_not_stay(device, system):
    for _ in range(3):
        normed(Accelerator("metal", device, {}))
    system.failing = "the GPU hung"
    with pytest.raises(ProviderError, match="hung"):
        normed(Accelerator("metal", device, {}))
    assert system.objc.staying == []


def test_a_closed_device_says_so(device):
    provider = Accelerator("metal", device, {})
    capture, *_ = two_norms(device, "metal")
    held = device.alloc(256)
    provider.close()
    provider.close()
    asked = (
        capture.replay,
        device.synchronize,
        lambda: device.alloc(1 << 13),
        lambda: device.download(held, 0, np.zeros(8, np.uint8)),
        lambda: normed(provider),
    )
    for ask in asked:
        with pytest.raises(ProviderError, match="metal: the device was closed, and what it held is gone"):
            ask()


def test_a_device_that_is_dropped_ends_what_it_encodes(system):
    device = Metal(FakeMetal(system), system, system.objc.autorelease_pool)
    two_norms(device, "metal")
    encoding, gone = device._commands, ref(device)
    del device
    gc.collect()
    assert gone() is None
    assert encoding.ended
    assert system.committed == []


def test_on_a_mac_it_is_found_and_says_what_was_never_tried(monkeypatch, system):
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setitem(sys.modules, "Metal", FakeMetal(system))
    monkeypatch.setitem(sys.modules, "objc", system.objc)
    provider = find("metal")
    assert provider.facts["device"] == "Apple Nothing"
    assert "never run on a Mac" in provider.facts["note"]


@pytest.mark.parametrize(
    ("platform", "module", "said"),
    [
        ("linux", FakeMetal(FakeDevice()), "metal: it needs macOS, and this is linux"),
        ("darwin", None, r"metal: PyObjC isn't installed .*: pip install 'vtcore\[metal\]'"),
        ("darwin", FakeMetal(), "metal: the system shows no device"),
    ],
)
def test_where_it_cannot_work_it_refuses_in_words(monkeypatch, platform, module, said):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setitem(sys.modules, "Metal", module)
    monkeypatch.setitem(sys.modules, "objc", FakeObjC())
    with pytest.raises(ProviderUnavailableError, match=said):
        find("metal")
