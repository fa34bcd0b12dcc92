"""Products on a device: the same bits whoever shares a batch, and nothing beyond the ends."""

import numpy as np
import pytest

from vtcore import ops
from vtcore.dispatch import Dispatcher
from vtcore.providers import ProviderOptions
from vtcore.providers.opencl import make
from vtcore.tensor import of

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def opencl():
    return make(ProviderOptions())


def run(provider, op, **call):
    """An op on a provider, its result on the host."""
    with Dispatcher([provider], strict=True):
        return op(**{n: of(v) if isinstance(v, np.ndarray) or hasattr(v, "data") else v for n, v in call.items()}).numpy()


def test_a_row_does_not_depend_on_its_neighbours(opencl):
    x, weight = RNG.standard_normal((19, 1100)).astype(np.float32), RNG.standard_normal((21, 1100)).astype(np.float32)
    whole = run(opencl, ops.linear, x=x, weight=weight)
    np.testing.assert_allclose(whole, x.astype(np.float64) @ weight.T.astype(np.float64), rtol=1e-4, atol=1e-4)
    for some in (slice(0, 1), slice(11, 13), slice(3, 19)):
        np.testing.assert_array_equal(run(opencl, ops.linear, x=x[some], weight=weight), whole[some])
