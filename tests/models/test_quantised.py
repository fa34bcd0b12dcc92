"""Quantised safetensors: the same tokens and logits as from the values that they stand for, and what is refused."""

import json

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.models.rand import CONFIG, load, logits, tensors
from tests.writers import write_safetensors
from vtcore.conformance.golden import FOLDER, Golden
from vtcore.errors import CheckpointError, ConfigError, TensorNamesError
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.formats.packed import Float8, Microscaled
from vtcore.formats.raw import RawTensor
from vtcore.models.load import load_model
from vtcore.quant import Blocks

PROMPT = [5, 9, 200, 7]
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
FP8 = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [32, 32]}
Q = "model.layers.0.self_attn.q_proj.weight"


def stored(name, a):
    return RawTensor(name, a.shape, a.dtype, "file", np.ascontiguousarray(a).reshape(-1).view(np.uint8))


def pair(rng, *shape):
    """Random codes [..., K / 32, 16] and scales of a weight [..., K], and its values."""
    codes = rng.integers(0, 256, (*shape[:-1], shape[-1] // 32, 16), np.uint8)
    scales = rng.integers(121, 125, codes.shape[:-1]).astype(np.uint8)
    each = np.stack([codes & 15, codes >> 4], -1).reshape(*scales.shape, 32)
    return codes, scales, (E2M1[each] * np.exp2(scales.astype(np.float32) - 127)[..., None]).reshape(shape)


@given(st.data())
def test_nibbles_are_brought_into_the_order_of_ggml(data):
    codes = data.draw(arrays(np.uint8, (2, 3, 2, 16)))
    scales = data.draw(arrays(np.uint8, (2, 3, 2), elements=st.integers(0, 254)))
    got = Microscaled.of("x", stored("x_blocks", codes), stored("x_scales", scales))
    each = np.stack([codes & 15, codes >> 4], -1).reshape(2, 3, 2, 32)
    wanted = (E2M1[each].astype(np.float64) * np.exp2(scales.astype(np.float64) - 127)[..., None]).reshape(2, 3, 64)
    with np.errstate(over="ignore"):  # a scale of 2^127 makes infinities of codes
        wanted = wanted.astype(np.float32)
    np.testing.assert_array_equal(got.load().dequantize(), wanted)
    np.testing.assert_array_equal(got.load(1).dequantize(), wanted[1])
    assert got.shape == (2, 3, 64)


@pytest.mark.parametrize("block", [(1, 64), (2, 32), (4, 128), (4, 16), (3, 96)])
def test_floats_with_a_scale_for_each_block(block):
    rng = np.random.default_rng(0)
    codes = rng.standard_normal((5, 96)).astype(ml_dtypes.float8_e4m3fn)
    scales = rng.random((-(-5 // block[0]), -(-96 // block[1])), np.float32)
    got = Float8.of("x", stored("x", codes), stored("x_scale_inv", scales), block)
    value = got.load()
    whole = scales.repeat(block[0], 0)[:5].repeat(block[1], 1)[:, :96]
    np.testing.assert_array_equal(value.dequantize() if isinstance(value, Blocks) else value, codes.astype(np.float32) * whole)
    assert isinstance(value, Blocks) == (block[1] % 32 == 0)


@pytest.mark.parametrize("shape", [(), (1,), (5,), (5, 1), (1, 1)])
@pytest.mark.parametrize("columns", [64, 40])
def test_floats_with_one_scale_or_one_a_row(shape, columns):
    rng = np.random.default_rng(0)
    codes = rng.standard_normal((5, columns)).astype(ml_dtypes.float8_e4m3fn)
    scales = np.asarray(rng.random(shape)).astype(ml_dtypes.bfloat16)
    value = Float8.of("x", stored("x", codes), stored("x_scale", scales), (128, 128)).load()
    wanted = codes.astype(np.float32) * scales.astype(np.float32).reshape(-1, 1)
    np.testing.assert_array_equal(value.dequantize() if isinstance(value, Blocks) else value, wanted)


def written(path, config, weights):
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    write_safetensors(path / "model.safetensors", weights)
    return load_model(open_checkpoint(path))


def test_gpt_oss_as_it_is_published(tmp_path):
    """Experts in MXFP4 lie [out, in], with rows of gate and up in turns; the dense form is [in, out]."""
    golden, rng = Golden.load(FOLDER / "gpt_oss.json"), np.random.default_rng(1)
    config = golden.config | {"intermediate_size": 64}
    dense = {n: a for n, a in golden.weights().items() if "experts" not in n}
    packed = dict(dense)
    for i in range(config["num_hidden_layers"]):
        base = f"model.layers.{i}.mlp.experts."
        for name, rows in (("gate_up_proj", 128), ("down_proj", 64)):
            codes, scales, values = pair(rng, 8, rows, 64)
            packed |= {f"{base}{name}_blocks": codes, f"{base}{name}_scales": scales}
            bias = {f"{base}{name}_bias": rng.standard_normal((8, rows)).astype(np.float32)}
            dense |= {f"{base}{name}": np.ascontiguousarray(values.swapaxes(1, 2))} | bias
            packed |= bias
    model = written(tmp_path / "packed", config | {"quantization_config": {"quant_method": "mxfp4"}}, packed)
    assert {str(t.dtype) for t in model.layers[0].experts_gate} == {"MXFP4"}
    assert model.survey.bytes_by_format["MXFP4"] == 4 * 8 * (128 + 64) * 64 // 32 * 17
    np.testing.assert_array_equal(logits(model, PROMPT), logits(written(tmp_path / "dense", config, dense), PROMPT))


def floats(weights, block, inverse=True, pick=lambda n: True):
    """Matrices of layers as 8-bit floats with a scale for each block, and the values that they stand for."""
    packed, dense = dict(weights), dict(weights)
    for name in [n for n, a in weights.items() if "layers" in n and a.ndim == 2 and pick(n)]:
        a, (r, c) = weights[name], block
        scales = np.exp(np.random.default_rng(len(name)).standard_normal((-(-a.shape[0] // r), -(-a.shape[1] // c)))).astype(np.float32)
        whole = scales.repeat(r, 0)[: a.shape[0]].repeat(c, 1)[:, : a.shape[1]]
        packed[name] = (a / whole).astype(ml_dtypes.float8_e4m3fn)
        packed[name + ("_scale_inv" if inverse else "_scale")] = scales
        dense[name] = packed[name].astype(np.float32) * whole
    return packed, dense


def test_deepseek_as_it_is_published(tmp_path):
    golden = Golden.load(FOLDER / "deepseek_v3.json")
    packed, dense = floats(golden.weights(), (32, 32), pick=lambda n: "mlp.gate.weight" not in n)
    model = written(tmp_path / "packed", golden.config | {"quantization_config": FP8}, packed)
    assert str(model.layers[0].o_proj.weight.dtype) == "float32"  # 48 columns are no whole blocks
    assert str(model.layers[0].up_proj.weight.dtype) == "F8_E4M3"
    assert {str(t.dtype) for t in model.layers[2].experts_up} == {"F8_E4M3"}
    np.testing.assert_array_equal(logits(model, PROMPT), logits(written(tmp_path / "dense", golden.config, dense), PROMPT))


@pytest.mark.parametrize("block", [(1, 10**6), (10**6, 10**6)])
def test_compressed_tensors_in_8_bit_floats(block, tmp_path):
    packed, dense = floats(tensors(), block, inverse=False)
    extra = {f"model.layers.0.self_attn.{n}": np.ones(1, np.float32) for n in ("k_scale", "q_proj.input_scale")}
    about = {"quant_method": "compressed-tensors", "format": "float-quantized"}
    model = load(tmp_path / "packed", CONFIG | {"quantization_config": about}, packed | extra)
    np.testing.assert_array_equal(logits(model, PROMPT), logits(load(tmp_path / "dense", weights=dense), PROMPT))
    assert list(model.weights.notes) == [
        "1 scales of activations are not read: only weights are quantised here",
        "1 scales of keys and values count where kv_cache_dtype is of 8-bit floats",
    ]


def test_compressed_tensors_in_mxfp4(tmp_path):
    codes, scales, values = pair(np.random.default_rng(0), 32, 32)
    base = Q.removesuffix(".weight")
    packed = {n: a for n, a in tensors().items() if n != Q} | {
        f"{base}.weight_packed": codes.reshape(32, 16),
        f"{base}.weight_scale": scales,
    }
    about = {"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized"}
    model = load(tmp_path / "packed", CONFIG | {"quantization_config": about}, packed)
    np.testing.assert_array_equal(logits(model, PROMPT), logits(load(tmp_path / "dense", weights=tensors() | {Q: values}), PROMPT))


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({"quant_method": "gptq"}, "quant_method is 'gptq'; what is read is mxfp4, fp8, fbgemm_fp8,"),
        ({"quant_method": ["awq"]}, "quant_method is ['awq']"),
        ({"bits": 4}, "quant_method is None"),
        (
            {"quant_method": "compressed-tensors", "format": "pack-quantized"},
            "format is 'pack-quantized'; of compressed-tensors what is read",
        ),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "quant_algo is 'NVFP4'; of modelopt what is read is FP8"),
        ({"quant_method": "fp8", "weight_block_size": [0, 1]}, "weight_block_size is [0, 1]; it must be two whole numbers"),
        ({"quant_method": "fp8", "weight_block_size": "128"}, "weight_block_size is '128'"),
        ("fp8", "quantization_config is 'fp8'; it must be an object"),
    ],
)
def test_what_is_not_read_is_refused_by_name(about, words, tmp_path):
    with pytest.raises(ConfigError) as e:
        load(tmp_path / "alone", CONFIG | {"quantization_config": about})
    assert words in str(e.value)
    wrapped = {"architectures": ["LlavaForConditionalGeneration"], "text_config": CONFIG | {"quantization_config": about}}
    with pytest.raises(ConfigError) as e:
        load(tmp_path / "part", wrapped)
    assert words in str(e.value)


def eight(a):
    return a.astype(ml_dtypes.float8_e4m3fn)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({Q: eight(np.ones((32, 32)))}, CheckpointError, f"{Q} holds 8-bit floats, and neither {Q}_scale_inv nor {Q}_scale is there"),
        (
            {Q: eight(np.ones((32, 32))), f"{Q}_scale": np.ones(3, np.float32)},
            CheckpointError,
            "it must hold floats, one, one a row, or [1, 1]",
        ),
        ({Q: eight(np.ones((32, 32))), f"{Q}_scale": np.ones(1, np.int32)}, CheckpointError, f"{Q}_scale is [1] (int32)"),
        ({Q: eight(np.ones((1, 32, 32))), f"{Q}_scale": np.ones(1, np.float32)}, CheckpointError, "a matrix with two axes can be read"),
        ({"a_blocks": np.ones((2, 16), np.uint8)}, CheckpointError, "a_blocks is there and a_scales, its scales, is not"),
        ({"a_blocks": np.ones((2, 15), np.uint8), "a_scales": np.ones(2, np.uint8)}, CheckpointError, "16 bytes to one scale"),
        ({"a_blocks": np.ones((2, 16), np.int8), "a_scales": np.ones(2, np.uint8)}, CheckpointError, "they must be uint8"),
        ({"a_blocks": np.ones(16, np.uint8), "a_scales": np.ones((), np.uint8)}, CheckpointError, "a_scales []"),
        ({"a_blocks": np.ones((2, 1, 16), np.uint8), "a_scales": np.ones((2, 1), np.uint8)}, TensorNamesError, "does not read: a"),
        ({f"{Q}_scale": np.ones(1, np.float32)}, TensorNamesError, f"does not read: {Q}_scale"),
    ],
)
def test_parts_that_do_not_fit(changes, error, words, tmp_path):
    with pytest.raises(error) as e:
        load(tmp_path, CONFIG | {"quantization_config": {"quant_method": "fp8"}}, tensors() | changes)
    assert words in str(e.value)


def test_numbers_that_are_none():
    good, one = eight(np.ones((2, 32))), np.ones(1, np.float32)
    bad = good.copy()
    bad[1, 3] = np.nan
    with pytest.raises(CheckpointError, match="'x' holds a code that is no number"):
        Float8.of("x", stored("x", bad), stored("s", one), (1, 1)).load()
    with pytest.raises(CheckpointError, match="'s' holds a scale that is no finite number"):
        Float8.of("x", stored("x", good), stored("s", one * np.inf), (1, 1)).load()
    with pytest.raises(CheckpointError, match="'s' holds the scale 255"):
        Microscaled.of("x", stored("c", np.zeros((2, 16), np.uint8)), stored("s", np.full(2, 255, np.uint8))).load()
