"""Bytes go up and down in the order in which they are told to, a recorded step is one submission, and what is dropped is given back."""

import gc

import numpy as np
import pytest

from vtcore.dispatch import Dispatcher
from vtcore.errors import OutOfMemoryError, ProviderError
from vtcore.ops import add
from vtcore.providers import find
from vtcore.providers.kernels.declare import buffers
from vtcore.providers.vulkan import queue, recording
from vtcore.providers.vulkan.staging import SIZE
from vtcore.tensor import empty, of

PLUS = "if (INDEX < total) ST_y(INDEX, LD_x(INDEX) + 1.0f);"


@pytest.fixture
def plus(made):
    return made("plus", buffers(reads="x", writes="y"), "total", PLUS)


@pytest.mark.parametrize("nbytes", [4, 10, 65536, 70001, 2 * SIZE + 12])
def test_what_goes_up_comes_down(device, nbytes):
    rng = np.random.default_rng(nbytes)
    held, data = device.alloc(nbytes, zero=True), rng.integers(0, 256, nbytes, np.uint8)
    back = np.empty_like(data)
    device.download(held, 0, back)
    assert not back.any()
    device.upload(held, 0, data)
    device.copy(held, 0, nbytes // 2, nbytes // 4)
    device.upload(held, 1, data[:3])
    device.download(held, 0, back)
    want = data.copy()
    want[nbytes // 2 : nbytes // 2 + nbytes // 4] = data[: nbytes // 4]
    want[1:4] = data[:3]
    np.testing.assert_array_equal(back, want)


def test_an_upload_waits_for_a_launch_that_still_reads(device, plus, there):
    (x,), y, z = there(device, np.ones(1000, np.float32)), empty(device, (1000,)), empty(device, (1000,))
    device.each(plus, [x, y], [], 1000)
    device.upload(x.storage.copies[device], 0, np.full(1000, 5, np.float32).view(np.uint8))
    device.each(plus, [x, z], [], 1000)
    assert (y.numpy() == 2).all()
    assert (z.numpy() == 6).all()


def test_launches_see_what_those_before_have_written(device, plus, there):
    (x,) = there(device, np.zeros(300, np.float32))
    for _ in range(200):
        y = empty(device, (300,))
        device.each(plus, [x, y], [], 300)
        x = y
    assert (x.numpy() == 200).all()


@pytest.mark.feature("Recorded decode steps")
def test_a_recorded_step_is_one_submission(device, plus, there):
    (x,), steps = there(device, np.zeros(8, np.float32)), []
    y, z = empty(device, (8,)), empty(device, (8,))
    with device.record(lambda bound, storages: steps.append(bound)):
        device.each(plus, [x, y], [], 8)
        device.each(plus, [y, z], [], 8)
    replay = device.seal(steps)
    device.synchronize()
    before = device.queue.submissions
    device.upload(x.storage.copies[device], 0, np.full(8, 7, np.float32).view(np.uint8))
    replay()
    assert device.queue.submissions == before + 1
    device.synchronize()
    assert device.queue.submissions == before + 1
    back = np.empty(32, np.uint8)
    device.download(z.storage.copies[device], 0, back)
    assert (back.view(np.float32) == 9).all()


def test_only_launches_that_need_each_other_get_a_barrier(device, plus, there, monkeypatch):
    counted, real = [], recording.lib

    class Counting:
        def __getattr__(self, name):
            if name == "vkCmdPipelineBarrier":
                counted.append(name)
            return getattr(real, name)

    (a, b), (y, z, w) = there(device, np.zeros(8, np.float32), np.zeros(8, np.float32)), (empty(device, (8,)) for _ in range(3))
    device.synchronize()
    monkeypatch.setattr(recording, "lib", Counting())
    for source, target in ((a, y), (b, z), (a, w)):
        device.each(plus, [source, target], [], 8)
    assert len(counted) == 0
    device.each(plus, [y, a], [], 8)  # reads what was written
    assert len(counted) == 1
    device.each(plus, [b, y], [], 8)  # writes what was read
    assert len(counted) == 2


def test_parameters_beyond_128_bytes_come_from_a_buffer(device, made, there):
    names = [f"a{i}" for i in range(40)]
    many = made(
        "many", buffers(reads="x", writes="y"), " ".join(["total", *names]), f"if (INDEX < total) ST_y(INDEX, F32({' + '.join(names)}));"
    )
    (x,), steps, outs = there(device, np.zeros(4, np.float32)), [], []
    with device.record(lambda bound, storages: steps.append(bound)):
        for k in range(3):
            outs.append(empty(device, (4,)))
            device.each(many, [x, outs[-1]], [k] * 40, 4)
    device.seal(steps)()
    assert [o.numpy()[0] for o in outs] == [0, 40, 80]


def test_memory_that_is_not_there_is_a_sum(device):
    kept = device.alloc(1 << 20)
    with pytest.raises(OutOfMemoryError, match=r"vulkan: [\d,]+ bytes more don't fit: [\d,]+ of [\d,]+ bytes are taken on llvmpipe"):
        device.alloc(1 << 50)
    device.upload(kept, 0, np.ones(16, np.uint8))  # it goes on


def test_what_waits_in_the_pool_is_given_back_before_memory_is_out(device, monkeypatch):
    device.release(device.alloc(3 << 20, scratch=True))
    real, failed = device.heap.make, []

    def make(size):
        if not failed:
            failed.append(size)
            raise OutOfMemoryError("full")
        return real(size)

    monkeypatch.setattr(device.heap, "make", make)
    device.alloc(5 << 20)
    assert device.made == 5 << 20
    assert device.home.nbytes == 0


def test_a_lost_device_fails_what_asks_for_it_in_words(device, plus, there, monkeypatch):
    (x,), y = there(device, np.zeros(8, np.float32)), empty(device, (8,))
    real = queue.lib

    class Losing:
        def __getattr__(self, name):
            return (lambda *args: queue.LOST) if name == "vkQueueSubmit" else getattr(real, name)

    monkeypatch.setattr(queue, "lib", Losing())
    device.each(plus, [x, y], [], 8)
    with pytest.raises(ProviderError, match=r"the device llvmpipe.* was lost while submitting"):
        y.numpy()
    monkeypatch.setattr(queue, "lib", real)
    with pytest.raises(ProviderError, match="was lost"):
        device.each(plus, [x, y], [], 8)
    with pytest.raises(ProviderError, match="was lost"):
        device.synchronize()


def test_a_closed_device_says_so(device):
    held = device.alloc(64)
    device.close()
    device.close()
    with pytest.raises(ProviderError, match="was closed"):
        device.download(held, 0, np.empty(8, np.uint8))


def test_a_buffer_that_a_collected_storage_puts_back_lives_on(device, plus, there):
    class Cycle:
        def __init__(self, tensor):
            self.tensor, self.itself = tensor, self

    (x,) = there(device, np.ones(8, np.float32))
    Cycle(empty(device, (8,)))
    gc.collect()
    for _ in range(3):  # whatever was given back too early is so by now
        device.synchronize()
        device._sweep()
    assert device.home.nbytes == 256
    y = empty(device, (8,))
    assert device.home.nbytes == 0  # it is the same one
    device.each(plus, [x, y], [], 8)
    assert (y.numpy() == 2).all()
    assert y.storage.copies[device].buffer.buffer.number in device.heap._alive


def test_what_is_asked_of_a_closed_device_is_refused_in_words(device, plus, there):
    (x,) = there(device, np.ones(8, np.float32))
    held = x.storage.copies[device]
    device.close()
    back = np.zeros(32, np.uint8)
    asked = (
        lambda: device.upload(held, 0, back),
        lambda: device.download(held, 0, back),
        lambda: device.alloc(1 << 13),
        lambda: device.copy(held, 0, 16, 16),
        lambda: device.each(plus, [x, x], [], 8),
    )
    for ask in asked:
        with pytest.raises(ProviderError, match="was closed"):
            ask()


def test_a_device_that_is_dropped_is_closed(monkeypatch):
    closed, close = [], queue.Queue.close
    monkeypatch.setattr(queue.Queue, "close", lambda self: closed.append(self.device) or close(self))
    gc.collect()
    closed.clear()
    provider = find("vulkan")
    handle = provider.device.queue.device
    with Dispatcher([provider]):
        y = add(of(np.ones(8, np.float32)), of(np.ones(8, np.float32)))
    assert (y.numpy() == 2).all()
    seen = y.numpy()
    del provider, y
    gc.collect()
    assert closed == [handle]
    assert (seen == 2).all()
