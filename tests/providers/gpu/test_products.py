"""Products on a device: the same bits whoever shares a batch, and nothing beyond the ends."""

import numpy as np
import pytest

from vtcore import ops
from vtcore.dispatch import Dispatcher
from vtcore.ops.inputs import blocks
from vtcore.providers import ProviderOptions
from vtcore.providers.kernels.blocks import FORMS
from vtcore.providers.opencl import make
from vtcore.quant.blocks import FORMATS
from vtcore.tensor import held

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def opencl():
    return make(ProviderOptions())


def run(provider, op, **call):
    """An op on a provider, its result on the host."""
    with Dispatcher([provider], strict=True):
        return op(**{n: [held(m) for m in v] if isinstance(v, list) else held(v) for n, v in call.items()}).numpy()


def test_a_row_does_not_depend_on_its_neighbours(opencl):
    x, weight = RNG.standard_normal((19, 1100)).astype(np.float32), RNG.standard_normal((21, 1100)).astype(np.float32)
    whole = run(opencl, ops.linear, x=x, weight=weight)
    np.testing.assert_allclose(whole, x.astype(np.float64) @ weight.T.astype(np.float64), rtol=1e-4, atol=1e-4)
    for some in (slice(0, 1), slice(11, 13), slice(3, 19)):
        np.testing.assert_array_equal(run(opencl, ops.linear, x=x[some], weight=weight), whole[some])


@pytest.mark.feature("Compute directly on quantized blocks")
@pytest.mark.parametrize("name", ["Q4_K", "IQ3_S"])
def test_a_row_of_blocks_does_not_depend_on_its_neighbours(opencl, name):
    x, weight = RNG.standard_normal((11, 512)).astype(np.float32), blocks(RNG, 19, 512, FORMATS[name])
    whole = run(opencl, ops.linear, x=x, weight=weight)
    np.testing.assert_allclose(whole, x.astype(np.float64) @ weight.dequantize().T.astype(np.float64), rtol=1e-4, atol=1e-3)
    for some in (slice(4, 5), slice(9, 11)):
        np.testing.assert_array_equal(run(opencl, ops.linear, x=x[some], weight=weight), whole[some])


BACKWARDS = {
    "linear": (held(RNG.standard_normal((3, 64)).astype(np.float32)), held(RNG.standard_normal((8, 64)).astype(np.float32))[::-1]),
    "linear_q8": (held(RNG.standard_normal((3, 64)).astype(np.float32)), held(blocks(RNG, 8, 64, FORMATS["Q8_0"]))[::-1]),
    "embedding": (held(RNG.standard_normal((8, 64)).astype(np.float32))[::-1], held(np.array([0, 5, 7], np.int32))),
    "per_head": (held(RNG.standard_normal((3, 2, 8)).astype(np.float32)), held(RNG.standard_normal((2, 8, 5)).astype(np.float32))[:, ::-1]),
}


@pytest.mark.parametrize("name", BACKWARDS)
def test_rows_may_go_backwards(opencl, name):
    with Dispatcher([opencl], strict=True):
        got = getattr(ops, name)(*BACKWARDS[name]).numpy()
    np.testing.assert_allclose(got, getattr(ops, name)(*(t.numpy() for t in BACKWARDS[name])), rtol=1e-5, atol=1e-5)


def test_every_format_has_a_reader():
    assert FORMS.keys() == FORMATS.keys()


@pytest.mark.parametrize("name", ["Q5_1", "Q2_K"])  # offsets under one scale a block, and under two
def test_rounded_products_are_the_definitions_own_bits(opencl, name):
    x, weight = RNG.standard_normal((7, 768)).astype(np.float32), blocks(RNG, 19, 768, FORMATS[name])
    want = ops.linear_q8(x, weight)
    np.testing.assert_array_equal(run(opencl, ops.linear_q8, x=x, weight=weight), want)
    np.testing.assert_array_equal(run(opencl, ops.linear_q8, x=x[2:3], weight=weight), want[2:3])


def test_experts_that_nobody_asks_for_change_nothing(opencl):
    gate, up, down = (RNG.standard_normal(s).astype(np.float32) for s in ((4, 24, 40), (4, 24, 40), (4, 40, 24)))
    call = {"x": RNG.standard_normal((5, 40)).astype(np.float32), "weights": RNG.uniform(0, 1, (5, 2)).astype(np.float32)}
    call["ids"] = RNG.choice([0, 1, 3], (5, 2)).astype(np.int32)
    whole = run(opencl, ops.experts, **call, gate=gate, up=up, down=down)
    gate[2], up[2], down[2] = np.nan, np.nan, np.inf
    apart = {n: [m.copy() for m in stack] for n, stack in (("gate", gate), ("up", up), ("down", down))}
    np.testing.assert_array_equal(run(opencl, ops.experts, **call, gate=gate, up=up, down=down), whole)
    np.testing.assert_array_equal(run(opencl, ops.experts, **call, **apart), whole)
    alone = {n: v[3:4] for n, v in call.items()}
    np.testing.assert_array_equal(run(opencl, ops.experts, **alone, **apart), whole[3:4])
