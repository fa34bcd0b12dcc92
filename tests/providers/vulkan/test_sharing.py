"""Where host and device share one memory nothing is copied; the bytes live as long as anybody looks at them, and no longer."""

import mmap
from dataclasses import replace

import numpy as np
import pytest

from vtcore import system_pages
from vtcore.dispatch import Dispatcher
from vtcore.memory import HOST
from vtcore.ops import add, mul
from vtcore.providers import find
from vtcore.providers.vulkan import STAGED, physical
from vtcore.providers.vulkan.api import vk
from vtcore.storage import Storage
from vtcore.tensor import of


@pytest.fixture
def provider(monkeypatch):
    monkeypatch.delenv(STAGED, raising=False)
    made = find("vulkan")
    yield made
    made.close()


def at(offset, nbytes=4096):
    """An array that begins so many bytes after a page does."""
    return HOST.fresh(1 << 17)[offset : offset + nbytes]


@pytest.mark.parametrize("staging", ["0", "1"])
def test_arrays_come_back_as_they_went(staging, monkeypatch):
    monkeypatch.setenv(STAGED, staging)
    provider = find("vulkan")
    x = of(np.arange(1 << 19, dtype=np.float32).reshape(2, -1))
    with Dispatcher([provider]) as d:
        assert np.array_equal(mul(x, x).numpy(), x.numpy() ** 2)
    assert provider.repacks == (staging == "1")
    assert sum(c.nbytes for c in d.report().copied) == (x.nbytes if staging == "1" else 0)
    provider.close()


def test_a_result_outlives_the_device(provider):
    x = of(np.ones((64, 64), np.float32))
    with Dispatcher([provider]):
        seen = add(x, x).numpy()
    del x
    provider.close()
    assert (seen == 2).all()


def test_buffers_go_back_once_nobody_looks_at_them(provider):
    device = provider.device
    with Dispatcher([provider]):
        x = of(np.ones((4, 64), np.float32))
        kept = [add(x, x).numpy() for _ in range(8)]
        made = device.made
        for _ in range(8):
            add(add(x, x), x)
    assert device.made - made <= 4 * 1024
    del x
    device.synchronize()
    assert all((k == 2).all() for k in kept)
    assert device.live == 0


def test_the_host_sees_zeros_where_nobody_has_written(provider):
    device = provider.device
    held = device.alloc(4096)
    device.upload(held, 0, np.full(4096, 7, np.uint8))
    device.release(held)
    del held
    storage = Storage(4096)
    storage.at(device)  # in the place of what was given back
    assert not storage.at(HOST).buffer.any()


def test_what_was_adopted_is_given_back_and_its_array_with_it(provider):
    device, host = provider.device, at(256)
    before = device.heap.taken
    held = device.adopt(host)
    assert device.heap.taken == before
    assert any(b.adopted for b in device.heap._alive.values())
    device.release(held)
    del held
    for _ in range(2):  # one sees that it is dropped, the next gives it back
        device._sweep()
    assert not any(b.adopted for b in device.heap._alive.values())


def test_a_mapped_file_is_read_where_it_lies(provider, tmp_path):
    path = tmp_path / "weights"
    path.write_bytes(b"\0" * 64 + np.arange(5000, dtype=np.float32).tobytes())
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    host = np.frombuffer(mapped, np.float32, 5000, 64)
    with Dispatcher([provider]) as d:
        assert np.array_equal(add(of(host), of(host)).numpy(), 2 * host)
    assert not sum(c.nbytes for c in d.report().copied)


def test_an_array_at_a_place_that_no_kernel_can_see_is_copied(provider):
    assert provider.device.adopt(at(4)) is None
    host = at(4, 400).view(np.float32)
    host[:] = 3
    with Dispatcher([provider]) as d:
        assert (add(of(host), of(host)).numpy() == 6).all()
    assert sum(c.nbytes for c in d.report().copied)


def test_bytes_move_within_what_was_adopted(provider):
    device, host = provider.device, at(512, 1024)
    host[:] = np.arange(1024) % 251
    held = device.adopt(host)
    device.copy(held, 0, 512, 256)
    device.synchronize()
    assert np.array_equal(host[512:768], host[:256])
    back = np.empty(16, np.uint8)
    device.download(held, 520, back)
    assert np.array_equal(back, host[8:24])


@pytest.mark.parametrize("change", [{"pages": 0}, {"pages": 16 * system_pages.SIZE}])
def test_without_the_extension_it_copies(change, monkeypatch):
    real = physical.described
    monkeypatch.setattr(physical, "described", lambda handle: replace(real(handle), **change))
    provider = find("vulkan")
    x = of(np.ones(64, np.float32))
    with Dispatcher([provider]) as d:
        assert (add(x, x).numpy() == 2).all()
    assert not provider.device.shares
    assert provider.device.adopt(at(0)) is None
    assert sum(c.nbytes for c in d.report().copied)
    provider.close()


def test_pieces_of_memory_are_not_used_up(provider):
    provider.device.heap.most = 0
    assert provider.device.adopt(at(0)) is None


def test_a_driver_that_refuses_pages_has_them_copied(provider, monkeypatch):
    heap = provider.device.heap

    def refuse(address, size, kind):
        raise vk.VkErrorOutOfHostMemory

    monkeypatch.setattr(heap.imports, "memory", refuse)
    assert provider.device.adopt(at(0)) is None
