"""A step of two norms, recorded on one device."""

import numpy as np

from vtcore import ops
from vtcore.capture import Capture
from vtcore.dispatch import Dispatcher
from vtcore.providers.gpu.provider import Accelerator
from vtcore.tensor import Tensor, of


def two_norms(device, name: str) -> tuple[Capture, Tensor, Tensor]:
    """What was recorded, what it reads, and what it gives; both [3 8]."""
    dispatcher = Dispatcher([Accelerator(name, device, {})], strict=True)
    x, w = of(np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)), of(np.ones(8, np.float32))
    with dispatcher, Capture(dispatcher) as capture:
        y = ops.rms_norm(ops.rms_norm(x, w, 1e-6), w, 1e-6)
    return capture, x, y


def negate(x: Tensor, device) -> None:
    """In place, on the host and then on the device: the norms change their sign, and no more."""
    x.numpy()[:] *= -1
    x.storage.wrote(next(m for m in x.storage.copies if m.name == "host"))
    x.storage.at(device)
