"""A device, once straight and once by way of a staging buffer; kernels that are declared for one test."""

import numpy as np
import pytest

from vtcore.providers import find
from vtcore.providers.kernels import declare
from vtcore.tensor import empty, of


@pytest.fixture(params=["straight", "staged"])
def device(request, monkeypatch):
    monkeypatch.setenv("VTCORE_VULKAN_STAGING", "1" if request.param == "staged" else "0")
    provider = find("vulkan")
    yield provider.device
    provider.close()


@pytest.fixture
def made(monkeypatch):
    """`kernel`, whose declarations end with the test."""
    monkeypatch.setattr(declare, "KERNELS", {})
    return declare.kernel


@pytest.fixture
def there():
    """Makes Tensors of arrays, true on a device."""

    def bring(device, *arrays):
        tensors = [of(np.array(a)) for a in arrays]
        for t in tensors:
            t.storage.at(device)
        return tensors

    return bring


@pytest.fixture
def each(there):
    """Runs a kernel with a work item for each of `total`, and gives what it wrote to its last buffer."""

    def run(device, kernel, arrays, total, dtype=np.float32, scalars=()):
        out = empty(device, (total,), dtype)
        device.each(kernel, [*there(device, *arrays), out], scalars, total)
        return out.numpy().copy()

    return run
