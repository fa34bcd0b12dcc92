"""Ctrl-C at a bad moment leaves nothing half done: what is computed next is right."""

import signal

import numpy as np
import pytest

from vtcore.providers.kernels.declare import buffers
from vtcore.providers.vulkan import queue
from vtcore.tensor import empty

PLUS = "if (INDEX < total) ST_y(INDEX, LD_x(INDEX) + 1.0f);"


@pytest.fixture
def plus(made):
    return made("plus", buffers(reads="x", writes="y"), "total", PLUS)


class Interrupting:
    """The driver, whose every submission is followed by an interrupt."""

    def __init__(self, real):
        self._real = real

    def __getattr__(self, name):
        return getattr(self._real, name)

    def vkQueueSubmit(self, *args):
        code = self._real.vkQueueSubmit(*args)
        signal.raise_signal(signal.SIGINT)
        return code


def test_what_was_submitted_is_counted(device, plus, there, monkeypatch):
    (x,), y = there(device, np.ones(8, np.float32)), empty(device, (8,))
    device.each(plus, [x, y], [], 8)
    before = device.queue.tick
    with monkeypatch.context() as changed:
        changed.setattr(queue, "lib", Interrupting(queue.lib))
        with pytest.raises(KeyboardInterrupt):
            device.queue.flush()
    assert device.queue.tick == before + 1
    assert (y.numpy() == 2).all()


def test_a_descriptor_set_that_shows_nothing_yet_is_not_kept(device, plus, there, monkeypatch):
    (x,), y = there(device, np.ones(8, np.float32)), empty(device, (8,))

    def interrupted(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as changed:
        changed.setattr(device.sets, "_write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            device.each(plus, [x, y], [], 8)
    device.each(plus, [x, y], [], 8)
    assert (y.numpy() == 2).all()
