"""Every block format against gguf-py: recorded vectors and random bytes, bit for bit; and taken apart, it means the same."""

from pathlib import Path

import numpy as np
import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from vtcore.quant import FORMATS, BlockFormat, Blocks, iq
from vtcore.quant.blocks import values

VECTORS = np.load(Path(__file__).parents[1] / "data" / "ggml_dequant.npz")  # random blocks with their values by gguf-py 0.19.0
ALL = [f for f in FORMATS.values() if f.ggml_type is not None]
ORACLE = [f for f in ALL if f.name not in ("Q8_1", "Q8_K", "Q1_0")]  # gguf-py has no dequantiser for these
names = pytest.mark.parametrize("fmt", ALL, ids=str)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    nan = np.isnan(b)
    return a.dtype == b.dtype == np.float32 and np.array_equal(np.isnan(a), nan) and np.array_equal(a[~nan].view("u4"), b[~nan].view("u4"))


def random_blocks(fmt: BlockFormat, n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, fmt.nbytes), dtype=np.uint8)


def pattern(nbytes: int) -> np.ndarray:
    return ((37 * np.arange(nbytes) + 11) % 256).astype(np.uint8)


def test_every_type_is_there():
    wanted = {t.name for t in GGMLQuantizationType if GGML_QUANT_SIZES[t][0] > 1}
    assert set(FORMATS) >= wanted
    assert len(wanted) == 26


@names
def test_sizes_and_ids(fmt):
    block, nbytes = GGML_QUANT_SIZES[GGMLQuantizationType(fmt.ggml_type)]
    assert GGMLQuantizationType(fmt.ggml_type).name == fmt.name
    assert (fmt.block, fmt.nbytes) == (block, 36 if fmt.name == "Q8_1" else nbytes)  # gguf-py counts Q8_1's two halves as two floats


@pytest.mark.parametrize("fmt", ORACLE, ids=str)
def test_recorded_vectors(fmt):
    assert same_bits(fmt.dequantize(VECTORS[f"{fmt.name}.raw"]), VECTORS[f"{fmt.name}.f32"])


@pytest.mark.parametrize("fmt", ORACLE, ids=str)
@settings(max_examples=20, deadline=None)
@given(st.data())
def test_as_gguf_py_on_any_bytes(fmt, data):
    raw = data.draw(arrays(np.uint8, (2, fmt.nbytes), fill=st.nothing()) | st.integers(0, 2**32).map(lambda s: random_blocks(fmt, 8, s)))
    with np.errstate(all="ignore"):
        wanted = quants.dequantize(raw, GGMLQuantizationType(fmt.ggml_type))
    assert same_bits(fmt.dequantize(raw), wanted)


@names
def test_taken_apart_it_means_the_same(fmt):
    raw = random_blocks(fmt, 200)
    codes = fmt.codes(raw)
    assert codes.code.dtype == np.int32
    assert np.array_equal(codes.code, codes.code.astype(np.int8))
    assert codes.code.shape == (200, codes.scale.shape[1], codes.code.shape[2])
    assert codes.code.shape[2] in (16, 32)
    assert codes.code[0].size == fmt.block
    assert codes.scale.dtype == np.float32
    assert codes.offset is None or (codes.offset.shape, codes.offset.dtype) == (codes.scale.shape, codes.scale.dtype)
    with np.errstate(all="ignore"):
        assert same_bits(values(codes), fmt.dequantize(raw))


@names
def test_rows_of_blocks(fmt, monkeypatch):
    raw = random_blocks(fmt, 24)
    blocks = Blocks(raw.reshape(2, 4, 3 * fmt.nbytes), fmt)
    assert blocks.shape == (2, 4, 3 * fmt.block)
    whole = blocks.dequantize()
    assert same_bits(whole.reshape(24, fmt.block), fmt.dequantize(raw))
    monkeypatch.setattr("vtcore.quant.blocks.CHUNK", 5 * fmt.block)
    assert same_bits(blocks.dequantize(), whole)
    assert same_bits(blocks[1, 1:3].dequantize(), whole[1, 1:3])
    assert same_bits(blocks[:, ::2].dequantize(), whole[:, ::2])
    codes = blocks.codes()
    assert codes.code.shape == (2, 4, 3 * fmt.block // codes.code.shape[-1], codes.code.shape[-1])
    assert codes.scale.shape == codes.code.shape[:-1]
    assert Blocks(raw[:0], fmt).dequantize().shape == (0, fmt.block)


def test_a_row_is_whole_blocks():
    with pytest.raises(ValueError, match="multiple of 18 uint8; got 17"):
        Blocks(np.zeros((2, 17), np.uint8), FORMATS["Q4_0"])


def test_grids_are_shared_and_read_only():
    assert iq.grid("IQ1_S") is iq.grid("IQ1_S")
    with pytest.raises(ValueError, match="read-only"):
        iq.grid("IQ1_S")[0] = 0


def test_q8_1_and_q8_k_skip_their_sums():
    q = np.arange(-16, 16, dtype=np.int8)
    raw = np.concatenate([np.array([0.5, 99], np.float16).view(np.uint8), q.view(np.uint8)])
    assert np.array_equal(FORMATS["Q8_1"].dequantize(raw[None])[0], q * np.float32(0.5))
    q = np.arange(-128, 128).astype(np.int8)
    raw = np.concatenate([np.array([0.1], np.float32).view(np.uint8), q.view(np.uint8), np.full(32, 255, np.uint8)])
    assert np.array_equal(FORMATS["Q8_K"].dequantize(raw[None])[0], q * np.float32(0.1))


def test_q1_0_is_signs():
    raw = np.concatenate([np.array([2], np.float16).view(np.uint8), np.array([0b00000101, *[255] * 15], np.uint8)])
    got = FORMATS["Q1_0"].dequantize(raw[None])[0]
    assert got[:8].tolist() == [2, -2, 2, -2, -2, -2, -2, -2]
    assert got[8:].tolist() == [2] * 120


def test_q3_k_scales_are_unpacked():
    raw = pattern(110)
    raw[108:] = np.array([1], np.float16).view(np.uint8)
    got = FORMATS["Q3_K"].dequantize(raw[None])[0]
    assert got[:4].tolist() == [81, -108, 27, -54]
    assert got[-4:].tolist() == [-42, -42, -28, 42]
    assert (got.sum(), np.abs(got).max()) == (958, 128)


def test_subnormal_scales_are_kept():
    raw = np.array([0x01, 0x00, *[0x0F] * 16], np.uint8)
    got = FORMATS["Q4_0"].dequantize(raw[None])[0]
    assert np.array_equal(got, np.float32([7 * 2**-24] * 16 + [-8 * 2**-24] * 16))
    assert got[0] / np.float32(16) == np.float32(7 * 2**-28)


def test_infinite_scales_surface():
    raw = np.array([0x00, 0x7C, *[0x88] * 16], np.uint8)
    assert np.isnan(FORMATS["Q4_0"].dequantize(raw[None])).all()


def test_mxfp4_scales_cover_all_exponents():
    raw = np.zeros((256, 17), np.uint8)
    raw[:, 0], raw[:, 1] = np.arange(256), 0x02  # the first value is 1.0, stored as 2 halves
    got = FORMATS["MXFP4"].dequantize(raw)[:, 0]
    assert np.array_equal(got[:255].astype(np.float64), 2.0 ** np.arange(-127, 128))
    assert got[0] == np.float32(2**-127) != 0  # subnormal, not flushed
