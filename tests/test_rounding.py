"""Rounding emulation against what transformers answers in bfloat16, and each rule by itself."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from vtcore import ops
from vtcore.assembly import assemble
from vtcore.conformance.golden import FOLDER, Golden, probes
from vtcore.dispatch import Dispatcher
from vtcore.errors import ArgumentError
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.options import Options
from vtcore.providers import reference
from vtcore.quant import FORMATS, Blocks
from vtcore.rounding import DTYPES, Rounding, dtype_of, rounded_weight
from vtcore.sampling_params import SamplingParams
from vtcore.tensor import Tensor, of

BF16, F16 = DTYPES["bfloat16"], DTYPES["float16"]


def answers(golden, directory, dtype):
    """Logits of each case's prompt and recorded tokens but the last."""
    made = assemble(open_checkpoint(golden.write_safetensors(directory)), Options(providers="reference", dtype=dtype), None)
    kept = SamplingParams(max_tokens=0)
    submissions = [made.engine.submit((c.prompt + c.tokens)[:-1], kept, keep_logits=True) for c in golden.cases]
    while not made.engine.idle:
        made.engine.step()
    return [np.concatenate(s.logits) for s in submissions]


@pytest.mark.parametrize("name", ["llama_bfloat16", "qwen3_bfloat16"])
def test_a_bfloat16_engine_is_reproduced(name, tmp_path):
    """Every token, and many rows of logits to the recorded digits. The rest differs by single roundings, of sums in another order;
    float32 has no row right and a mean error several times as large."""
    golden = Golden.load(FOLDER / f"{name}.json")
    rounded, exact = answers(golden, tmp_path, "bfloat16"), answers(golden, tmp_path, None)
    for got, case in zip(rounded, golden.cases, strict=True):
        assert got[len(case.prompt) - 1 :].argmax(-1).tolist() == case.tokens
        assert np.array_equal(got, got.astype(ml_dtypes.bfloat16).astype(np.float32))
    assert np.max(errors(golden, rounded)) < golden.tolerance
    assert np.mean(errors(golden, rounded) < 1e-4) > 0.25
    assert np.mean(errors(golden, exact) < 1e-4) < 0.01
    assert np.mean(errors(golden, rounded)) < 0.4 * np.mean(errors(golden, exact))


def errors(golden, logits):
    """How far each row is off, by its probes."""
    return np.concatenate([np.abs(probes(got) - c.probes).max(-1) for got, c in zip(logits, golden.cases, strict=True)])


def run(op, *arguments, dtype=BF16):
    with Rounding(Dispatcher([reference.provider]), dtype):
        out = op(*(of(a) if isinstance(a, np.ndarray) else a for a in arguments))
    return [t.numpy() for t in out] if isinstance(out, tuple) else out.numpy()


def cast(x, dtype=BF16):
    return x.astype(dtype).astype(np.float32)


def draw(*shape, seed=0, dtype=BF16):
    return cast(np.random.default_rng(seed).normal(0, 1, shape).astype(np.float32), dtype)


@pytest.mark.parametrize("dtype", [BF16, F16])
def test_a_result_is_rounded(dtype):
    x, w = draw(3, 32, dtype=dtype), draw(5, 32, seed=1, dtype=dtype)
    assert np.array_equal(run(ops.linear, x, w, dtype=dtype), cast(ops.linear(x, w), dtype))


def test_what_overflows_is_infinite():
    assert run(ops.scale, np.array([6e4], np.float32), 2.0, dtype=F16)[0] == np.inf


def test_ops_that_choose_tokens_stay_in_float32():
    x = draw(2, 9)
    assert np.array_equal(run(ops.log_softmax, x), ops.log_softmax(x))


def test_a_norm_is_rounded_before_its_weight_and_with_an_offset_after():
    x, w = draw(4, 16), draw(16, seed=1)
    assert np.array_equal(run(ops.rms_norm, x, w, 1e-5), cast(cast(ops.rms_norm(x, None, 1e-5)) * w))
    assert np.array_equal(run(ops.rms_norm, x, w, 1e-5, 1.0), cast(ops.rms_norm(x, w, 1e-5, 1.0)))


def test_a_sum_is_rounded_before_its_norm():
    x, y, w = draw(4, 16), draw(4, 16, seed=1), draw(16, seed=2)
    normed, total = run(ops.add_rms_norm, x, y, w, 1e-5)
    assert np.array_equal(total, cast(x + y))
    assert np.array_equal(normed, run(ops.rms_norm, total, w, 1e-5))


@pytest.mark.parametrize(
    ("gated", "activation"),
    [(ops.silu_mul, ops.silu), (ops.gelu_mul, ops.gelu_tanh), (ops.gelu_erf_mul, ops.gelu), (ops.quick_gelu_mul, ops.quick_gelu)],
    ids=lambda op: op.name,
)
def test_an_activation_is_rounded_before_the_product(gated, activation):
    gate, up = draw(4, 16), draw(4, 16, seed=1)
    assert np.array_equal(run(gated, gate, up), cast(cast(activation(gate)) * up))


def test_rotation_rounds_both_products_and_their_sum():
    x, angles = draw(3, 2, 12), cast(ops.rope_angles(np.arange(3, dtype=np.int32), np.float32([1, 0.3, 0.1, 0.02])))
    cos, sin = angles[:, :1], angles[:, 1:]
    a, b = x[..., :4], x[..., 4:8]
    first, second = cast(cast(a * cos) - cast(b * sin)), cast(cast(b * cos) + cast(a * sin))
    assert np.array_equal(run(ops.rotate, x, angles), np.concatenate([first, second, x[..., 8:]], -1))
    assert np.array_equal(run(ops.rotate, x, angles, True), cast(ops.rotate(x, angles, True)))


def test_softcap_rounds_each_of_its_steps():
    x = 30 * draw(4, 16)
    assert np.array_equal(run(ops.softcap, x, 50.0), cast(cast(np.tanh(cast(x / np.float32(50)))) * 50))


@pytest.mark.parametrize("more", [(), (3,), (0, 2), (0, 0, 5.0)], ids=["full", "window", "chunk", "cap"])
def test_attention_is_near_the_exact_one_and_seen_in_the_report(more):
    q, k, v = draw(5, 4, 8), draw(3, 4, 2, 8, seed=1), draw(3, 4, 2, 8, seed=2)
    ints = [np.array(a, np.int32) for a in ([[1, 2]], [0, 5], [6], [1, 2, 3, 4, 5])]
    call = (q, k, v, *ints, 8**-0.5, *more)
    dispatcher = Dispatcher([reference.provider])
    with Rounding(dispatcher, BF16):
        got = ops.paged_attention(*(of(a) if isinstance(a, np.ndarray) else a for a in call)).numpy()
    assert np.array_equal(got, cast(got))
    assert got == pytest.approx(ops.paged_attention(*call), abs=0.03)
    assert [(r.op, r.provider) for r in dispatcher.report().ran] == [("paged_attention", "rounding")]


def test_pages_hold_rounded_values_and_nothing_is_returned():
    pages = np.zeros((2, 2, 1), np.float32)
    with Rounding(Dispatcher([reference.provider]), BF16):
        assert ops.write_pages(of(pages), ops.scale(of(np.float32([[1.001]])), 1.0), of(np.array([2], np.int32))) is None
    assert pages[1, 0, 0] == 1.0


def test_weights_are_held_in_the_dtype():
    hold = rounded_weight(BF16)
    dense = np.float32([[1.001, 2]])
    assert hold(dense).dtype == BF16
    assert hold(dense).numpy().astype(np.float32).tolist() == [[1.0, 2.0]]
    assert hold(np.array([1, 2], np.int32)).dtype == np.int32
    fmt = FORMATS["Q8_0"]
    blocks = Blocks(np.frombuffer(np.float16(0.1).tobytes() + bytes(range(32)), np.uint8).reshape(1, -1), fmt)
    held = hold(blocks)
    assert isinstance(held, Tensor)
    assert np.array_equal(held.numpy().astype(np.float32), cast(blocks.dequantize()))


def test_names():
    assert dtype_of(None) is None
    assert dtype_of("float32") is None
    assert dtype_of("bfloat16") == BF16
    for wrong in ("bf16", 16, "float64"):
        with pytest.raises(ArgumentError, match="bfloat16 or float16"):
            dtype_of(wrong)
