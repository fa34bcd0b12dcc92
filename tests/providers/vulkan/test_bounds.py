"""However many shapes, buffers and recorded steps come and go, no more objects are alive than are in use, and a few that wait."""

import gc
from collections import Counter

import numpy as np
import pytest

from tests.providers.recorded import negate, two_norms
from vtcore.capture import Capture
from vtcore.dispatch import Dispatcher
from vtcore.ops import add, rms_norm
from vtcore.providers.gpu.provider import Accelerator
from vtcore.providers.vulkan import sets
from vtcore.providers.vulkan.heap import SLAB
from vtcore.tensor import of


@pytest.fixture
def alive(device):
    """Counts the objects that the device has made and not given back, by kind, and Python's in hundreds."""

    def count():
        device.synchronize()
        gc.collect()
        for _ in range(2):  # one sees what is dropped, the next gives it back
            device._sweep()
        shown, queue = device.sets, device.queue
        return Counter(
            sets=len(shown._latest) + sum(map(len, shown._ended.values())),
            pools=len(shown._pools),
            commands=len(queue._idle) + len(queue._flying),
            buffers=len(device.heap._alive),
            slabs=len(device.heap._slabs),
            pipelines=len(device.pipelines._pipes),
            python=len(gc.get_objects()) // 100,
        )

    return count


@pytest.fixture
def dispatcher(device, monkeypatch):
    monkeypatch.setattr(sets, "MOST", 16)
    return Dispatcher([Accelerator("vulkan", device, {})])


def step(rows, width):
    """Four launches over an array of ones, which give threes."""
    x, one = of(np.ones((rows, width), np.float32)), of(np.ones(width, np.float32))
    for _ in range(2):
        x = add(rms_norm(x, one, 0.0), x)
    return x


def check_that_no_more_are_alive(alive, before):
    more = alive() - before
    assert more.pop("python", 0) <= 2, more  # a few are anybody's
    assert not more


def test_steps_of_ever_new_shapes_leave_nothing(dispatcher, alive):
    for width in (16, 15):
        before = alive() if width == 15 else None
        for i in range(1, 61):
            with dispatcher:
                assert (step(37 * i % 61, width).numpy() == 3).all()
    check_that_no_more_are_alive(alive, before)


def test_recorded_steps_that_are_dropped_leave_nothing(dispatcher, alive):
    for width in (16, 15):
        before = alive() if width == 15 else None
        for rows in range(1, 31):
            with dispatcher, Capture(dispatcher) as capture:
                out = step(rows, width)
            capture.replay()
            assert (out.numpy() == 3).all()
            del capture, out
    check_that_no_more_are_alive(alive, before)


def test_a_recorded_step_keeps_what_it_shows(device, dispatcher):
    capture, x, y = two_norms(device, "vulkan")
    first = y.numpy().copy()
    with dispatcher:
        for rows in range(1, 40):
            step(rows, 16).numpy()
    negate(x, device)
    capture.replay()
    np.testing.assert_array_equal(y.numpy(), -first)


def test_of_small_buffers_that_come_and_go_the_room_is_used_again(device):
    heap, kept = device.heap, []
    before = heap.taken
    for _ in range(6):
        made = [heap.make(SLAB // 8) for _ in range(8)]
        kept.append(made.pop())
        for buffer in made:
            heap.free(buffer)
    assert heap.taken - before <= 2 * SLAB
    for buffer in kept:
        heap.free(buffer)
    assert heap.taken <= before
