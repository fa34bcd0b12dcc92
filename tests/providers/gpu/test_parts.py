"""Matrices that no kernel sees as a whole: some rows at a time, with the bits of the whole, and nothing declined."""

from dataclasses import replace

import numpy as np
import pytest

from tests.checkpoints import random_llama
from vtcore import LLM, SamplingParams, ops
from vtcore.capture import Capture
from vtcore.dispatch import Dispatcher
from vtcore.errors import DeclinedError
from vtcore.ops.inputs import blocks
from vtcore.providers import find
from vtcore.providers.gpu.parts import ROWS, parts
from vtcore.quant.blocks import FORMATS, Blocks
from vtcore.tensor import Inputs, held, of

RNG = np.random.default_rng(0)
N, K = 301, 256
MATRICES = {
    "float32": RNG.standard_normal((N, K)).astype(np.float32),
    "float16": RNG.standard_normal((N, K)).astype(np.float16),
    "Q4_K": blocks(RNG, N, K, FORMATS["Q4_K"]),
    "IQ3_S": blocks(RNG, N, K, FORMATS["IQ3_S"]),
}
IDS = np.array([[0, 300, 127], [128, 129, 64]], np.int32)
BIAS = RNG.standard_normal(N).astype(np.float32)
SMALL = 13000  # bytes of a binding: of every matrix it holds some rows
PROVIDER = """
from dataclasses import replace
from vtcore.providers.NAME import make as made

def make(options):
    provider = made(options)
    provider.device.limits = replace(provider.device.limits, binding=20_000)
    return provider
"""


@pytest.fixture(scope="module", params=["opencl", "vulkan"])
def opened(request):
    provider = find(request.param)
    yield provider, provider.device.limits
    provider.close()


@pytest.fixture
def provider(opened):
    made, limits = opened
    yield made
    made.device.limits = limits


def small(provider, binding=SMALL):
    provider.device.limits = replace(provider.device.limits, binding=binding)


def rows_of(*numbers):
    return of(np.cos(np.arange(len(numbers) * K, dtype=np.float32)).reshape(len(numbers), K) * np.array(numbers, np.float32)[:, None])


def computed(provider, weight, x):
    """Products and looked up rows."""
    matrix = held(weight)
    rounds = ops.linear_q8 if str(matrix.dtype) == "Q4_K" else ops.linear
    with Dispatcher([provider], strict=True) as d:
        made = ops.linear(x, matrix, of(BIAS)), ops.linear(x, matrix), rounds(x, matrix, of(BIAS)), ops.embedding(matrix, of(IDS))
        return [t.numpy() for t in made], d.report()


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("x", [rows_of(1), rows_of(1, 2, 3, 4, 5)], ids=["a row", "rows"])
def test_the_bits_are_those_of_the_whole(provider, name, x):
    whole, _ = computed(provider, MATRICES[name], x)
    for binding in (40_000, SMALL):
        small(provider, binding)
        for want, got in zip(whole, computed(provider, MATRICES[name], x)[0], strict=True):
            np.testing.assert_array_equal(got, want)


EXPERTS, WIDTH, INNER = 5, 256, 64
SHAPES = {"gate": (INNER, WIDTH), "up": (INNER, WIDTH), "down": (50, INNER)}
Q8_0 = FORMATS["Q8_0"]
STACKS = {
    "float32": {n: RNG.standard_normal((EXPERTS, *s)).astype(np.float32) for n, s in SHAPES.items()},
    "float16": {n: RNG.standard_normal((EXPERTS, *s)).astype(np.float16) for n, s in SHAPES.items()},
    "Q8_0": {n: Blocks(blocks(RNG, EXPERTS * s[0], s[1], Q8_0).data.reshape(EXPERTS, s[0], -1), Q8_0) for n, s in SHAPES.items()},
}
BIASES = {f"{n}_bias": RNG.standard_normal((EXPERTS, s[0])).astype(np.float32) for n, s in SHAPES.items()}


def mixed(provider, stacks, tokens):
    """Each op of mixtures that takes them."""
    rng = np.random.default_rng(1)
    call = {"x": rng.standard_normal((tokens, WIDTH)), "weights": rng.uniform(0, 1, (tokens, 2))}
    call = {n: v.astype(np.float32) for n, v in call.items()} | {"ids": rng.integers(0, EXPERTS, (tokens, 2)).astype(np.int32)} | BIASES
    with Dispatcher([provider], strict=True):
        found = [ops.experts] if stacks["up"][0].dtype != Q8_0 else [ops.experts, ops.experts_q8]
        return [op(**{n: held(v) for n, v in (call | stacks).items()}).numpy() for op in found]


@pytest.mark.parametrize("tokens", [1, 15], ids=["rows", "tiles"])
@pytest.mark.parametrize("name", STACKS)
def test_experts_in_parts_have_the_bits_of_the_whole(provider, name, tokens):
    whole, apart = mixed(provider, STACKS[name], tokens), {n: tuple(s[e] for e in range(EXPERTS)) for n, s in STACKS[name].items()}
    for binding in (140_000, 34_000, 16_000):  # several matrices, one of some formats, rows of one
        small(provider, binding)
        for given in (STACKS[name], apart):
            for want, got in zip(whole, mixed(provider, given, tokens), strict=True):
                np.testing.assert_array_equal(got, want)


def test_matrices_of_one_storage_that_is_too_large(provider):
    stacks = STACKS["float32"]
    whole = mixed(provider, stacks, 15)
    seen = {n: of(s) for n, s in stacks.items()}
    small(provider, 140_000)
    (got,) = mixed(provider, {n: tuple(s[e] for e in range(EXPERTS)) for n, s in seen.items()}, 15)
    np.testing.assert_array_equal(got, whole[0])


@pytest.mark.parametrize("turned", [False, True])
def test_heads_in_parts_have_the_bits_of_the_whole(provider, turned):
    x, weight = (of(RNG.standard_normal(s).astype(np.float32)) for s in ((2, 5, 24), (5, 300, 24) if turned else (5, 24, 300)))
    weight = weight.transpose(0, 2, 1) if turned else weight
    with Dispatcher([provider], strict=True):
        whole = ops.per_head(x, weight).numpy()
        for binding in (60_000, SMALL):  # two heads; columns of one
            small(provider, binding)
            np.testing.assert_array_equal(ops.per_head(x, weight).numpy(), whole)


def test_parts_go_up_once_and_the_whole_never(provider, monkeypatch):
    small(provider)
    monkeypatch.setattr(provider.device, "adopt", lambda host: None)  # as where host and device have a memory each
    matrix, before = held(MATRICES["float32"]), provider.device.live
    provider.prepare(ops.linear, matrix)
    taken = provider.device.live - before
    assert matrix.nbytes <= taken < 2 * matrix.nbytes
    with Dispatcher([provider], strict=True):
        assert parts(provider.device, matrix, ROWS) is parts(provider.device, matrix, ROWS)
        ops.linear(rows_of(1), matrix)
        ops.embedding(matrix, of(IDS))
    assert provider.device not in matrix.storage.copies
    assert provider.device.live - before < 2 * matrix.nbytes


def test_a_recorded_step_replays_all_parts(provider):
    small(provider)
    inputs, matrix = Inputs({"ids": IDS[0]}), held(MATRICES["float16"])
    with Dispatcher([provider], strict=True) as d, Capture(d, inputs) as capture:
        out = ops.linear(ops.embedding(matrix, inputs.tensors["ids"]), matrix)
    inputs.update({"ids": IDS[1]})
    with d:
        capture.replay()
    rows = MATRICES["float16"][IDS[1]].astype(np.float64)
    np.testing.assert_allclose(out.numpy(), rows @ MATRICES["float16"].T.astype(np.float64), rtol=1e-4, atol=1e-4)


def test_a_row_that_no_kernel_sees_is_declined_in_words(provider):
    small(provider, 1000)
    with (
        Dispatcher([provider], strict=True),
        pytest.raises(DeclinedError, match=r"weight: its storage has [\d,]+ bytes; a kernel of this device sees at most 1,000"),
    ):
        ops.linear(of(np.ones((1, 300), np.float16)), of(np.ones((2, 300), np.float32)))


@pytest.mark.parametrize("name", ["opencl", "vulkan"])
def test_a_model_whose_matrices_are_in_parts_gives_the_same_tokens(tmp_path, name):
    (tmp_path / "small.py").write_text(PROVIDER.replace("NAME", name))
    path, params = random_llama(tmp_path / "model"), SamplingParams(temperature=0, max_tokens=6, ignore_eos=True)
    answers = []
    for providers in (name, str(tmp_path / "small.py")):
        with LLM(path, providers=providers, strict=True, num_gpu_blocks_override=4) as llm:
            (output,) = llm.generate({"prompt_token_ids": [299, 0, 150]}, params, use_tqdm=False)
            answers.append(output.outputs[0].token_ids)
    assert answers[0] == answers[1]
