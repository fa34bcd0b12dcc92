"""Products on a device: the same bits whoever shares a batch, and nothing beyond the ends."""

import re

import numpy as np
import pytest

from vtcore import ops
from vtcore.capture import Capture
from vtcore.dispatch import Dispatcher
from vtcore.ops.inputs import blocks
from vtcore.providers import ProviderOptions, find
from vtcore.providers.gpu.provider import Accelerator
from vtcore.providers.kernels.blocks import FORMS
from vtcore.providers.opencl import make
from vtcore.quant.blocks import FORMATS, Blocks
from vtcore.simt.used import Listing
from vtcore.tensor import Inputs, held

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


def mixture(shape, weight, tokens=40):
    """A call of `experts` in which most tokens go to one expert, and none to another."""
    (e, inner, width, out), rng = shape, np.random.default_rng(5)
    call = {"x": rng.standard_normal((tokens, width)), "weights": rng.uniform(0, 1, (tokens, 2))}
    call = {n: v.astype(np.float32) for n, v in call.items()}
    call["ids"] = np.stack([rng.choice([1, 1, 1, 3], tokens), rng.choice([0, 4], tokens)], 1).astype(np.int32)
    call |= {n: rng.standard_normal((e, w)).astype(np.float32) for n, w in (("gate_bias", inner), ("up_bias", inner), ("down_bias", out))}
    return call | {n: weight(e, *s) for n, s in (("gate", (inner, width)), ("up", (inner, width)), ("down", (out, inner)))}


def dense(dtype):
    return lambda *shape: (RNG.standard_normal(shape) / 8).astype(dtype)


def quantised(name):
    return lambda e, n, k: Blocks(blocks(RNG, e * n, k, FORMATS[name]).data.reshape(e, n, -1), FORMATS[name])


@pytest.mark.parametrize("provider", ["opencl", "vulkan"])
@pytest.mark.parametrize(
    ("op", "weight"),
    [(ops.experts, dense("f4")), (ops.experts, dense("f2")), *((op, quantised("Q4_K")) for op in (ops.experts, ops.experts_q8))],
    ids=["float32", "float16", "Q4_K", "Q4_K, rounded"],
)
def test_a_token_of_a_mixture_does_not_depend_on_its_neighbours(provider, op, weight):
    found, call = find(provider), mixture((5, 256, 512, 35), weight)
    whole, parts = run(found, op, **call), ("x", "weights", "ids")
    for some in (slice(0, 1), slice(7, 9), slice(13, 40)):  # rows by themselves, and tiles of other neighbours
        np.testing.assert_array_equal(run(found, op, **call | {n: call[n][some] for n in parts}), whole[some])
    order = np.random.default_rng(0).permutation(40)
    np.testing.assert_array_equal(run(found, op, **call | {n: call[n][order] for n in parts}), whole[order])
    found.close()


def test_a_recorded_mixture_sorts_its_tokens_anew(opencl):
    call = mixture((5, 48, 64, 35), dense("f4"))
    tensors, inputs = {n: held(v) for n, v in call.items()}, Inputs({"ids": call["ids"]})
    with Dispatcher([opencl], strict=True) as d, Capture(d, inputs) as capture:
        out = ops.experts(**tensors | {"ids": inputs.tensors["ids"]})
    for ids in (np.zeros((40, 2), np.int32), (call["ids"] + 2) % 5):
        inputs.update({"ids": ids})
        with d:
            capture.replay()
        np.testing.assert_array_equal(out.numpy(), run(opencl, ops.experts, **call | {"ids": ids}))


@pytest.mark.parametrize(("op", "kernel"), [(ops.experts, "vt_linear_q4_k"), (ops.experts_q8, "vt_linear_q8_q4_k")])
def test_many_tokens_of_a_mixture_are_multiplied_in_tiles(op, kernel):
    for tokens, tile in ((2, "_1"), (40, "_[48]")):
        device = Listing()
        run(Accelerator("listing", device, {}), op, **mixture((5, 256, 512, 35), quantised("Q4_K"), tokens))
        assert [n for n in device.variants if re.fullmatch(kernel + tile, n)] == [n for n in device.variants if kernel in n]
        assert ("vt_list_tiles" in device.variants) == (tokens > 2)
