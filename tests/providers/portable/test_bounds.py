"""No kernel reads behind its arguments (which may end where a mapped file ends) or writes behind its results."""

import ctypes
import mmap

import ml_dtypes  # noqa: F401  (NumPy's bfloat16)
import numpy as np
import pytest

from tests.providers.portable.instances import NAMES, blocks, portable, run
from vtcore import ops
from vtcore.memory import HOST
from vtcore.quant.blocks import Blocks
from vtcore.tensor import of

NONE, SLACK = 0, 0xA5
RNG = np.random.default_rng(0)


def at_the_edge(array):
    """A copy whose last byte is the last before memory that nobody may touch."""
    if isinstance(array, Blocks):
        return Blocks(at_the_edge(array.data), array.dtype)
    room = -(-array.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, room + mmap.PAGESIZE)
    whole = np.frombuffer(memory, np.uint8)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    assert protect(ctypes.c_void_p(whole.ctypes.data + room), ctypes.c_size_t(mmap.PAGESIZE), NONE) == 0
    copy = whole[room - array.nbytes : room].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def several(result):
    return [r.numpy() for r in result] if isinstance(result, tuple) else [result]


def floats(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(np.float32).astype(dtype)


def whole_numbers(*values):
    return np.array(values, np.int32)


def stack(name):
    """Four matrices of one format, 64 by 64."""
    return Blocks(blocks(name, 256, 64).data.reshape(4, 64, -1), blocks(name, 1, 64).dtype)


EXPERTS = {"x": floats(7, 37), "weights": floats(7, 2), "ids": RNG.integers(0, 4, (7, 2)).astype(np.int32)}
EXACT, FAST = ("Q8_0", "Q5_1", "Q3_K", "Q6_K", "IQ4_XS"), ("Q8_0", "Q4_0", "Q2_K", "Q5_K", "IQ2_S")
CALLS = {
    "odd elementwise": (ops.silu_mul, {"gate": floats(3, 37), "up": floats(3, 37)}),
    "one by one": (ops.gelu, {"x": floats(1, 1, dtype="float16")}),
    "broadcast": (ops.add, {"x": floats(3, 37), "y": floats(37, dtype="bfloat16")}),
    "column": (ops.sigmoid_mul, {"x": floats(3, 5), "gate": floats(3, 1)}),
    "mixed": (ops.mix_streams, {"streams": floats(3, 4, 37), "weights": floats(3, 2, 4)}),
    "levelled": (ops.match_level, {"streams": floats(3, 4, 37), "like": floats(3, 37), "floor": 1e-5}),
    "barred": (ops.over_bar, {"x": floats(3, 37), "deviations": 1.0}),
    "joined": (ops.concat, {"x": floats(3, 5), "y": floats(3, 18)}),
    "norm": (ops.rms_norm, {"x": floats(3, 37), "weight": floats(37, dtype="float16"), "eps": 1e-5}),
    "groups": (ops.rms_norm, {"x": floats(3, 38), "weight": None, "eps": 1e-5, "groups": 2}),
    "layer norm": (ops.layer_norm, {"x": floats(3, 37), "weight": floats(37), "bias": floats(37), "eps": 1e-5}),
    "shares": (ops.softmax, {"x": floats(3, 37)}),
    "largest": (ops.argmax, {"x": floats(3, 37)}),
    "half turned": (ops.rotate, {"x": floats(3, 2, 26), "angles": floats(3, 2, 11)}),
    "pairs turned": (ops.rotate, {"x": floats(3, 2, 40), "angles": floats(3, 2, 19), "interleaved": True}),
    "angles": (ops.rope_angles, {"positions": whole_numbers(0, 5, 9), "frequencies": floats(7)}),
    "rows": (ops.embedding, {"table": floats(5, 37, dtype="bfloat16"), "ids": whole_numbers(4, 0)}),
    "rows of blocks": (ops.embedding, {"table": blocks("Q6_K", 5, 256), "ids": whole_numbers(4, 0)}),
    "rows of nibbles": (ops.embedding, {"table": blocks("Q4_1", 5, 32), "ids": whole_numbers(4, 0)}),
    "dense": (ops.linear, {"x": floats(7, 37), "weight": floats(37, 37), "bias": floats(37)}),
    "halves": (ops.linear, {"x": floats(1, 1), "weight": floats(1, 1, dtype="float16"), "bias": floats(1, dtype="bfloat16")}),
    **{f"exact {n}": (ops.linear, {"x": floats(3, 256), "weight": blocks(n, 5, 256)}) for n in EXACT},
    **{f"fast {n}": (ops.linear_q8, {"x": floats(3, 256), "weight": blocks(n, 37, 256)}) for n in FAST},
    "attention": (
        ops.paged_attention,
        {
            "q": floats(2, 2, 24), "k_pages": floats(3, 16, 1, 24), "v_pages": floats(3, 16, 1, 24),
            "table": whole_numbers(2, 1).reshape(1, 2), "starts": whole_numbers(0, 2), "lengths": whole_numbers(19),
            "until": whole_numbers(17, 18), "scale": 0.2,
        },
    ),
    "choice of experts": (ops.route, {"logits": floats(3, 37), "k": 5, "bias": floats(37, dtype="bfloat16"), "score": "sigmoid"}),
    "sparse choice": (ops.route_sparse, {"logits": floats(3, 37), "jitter": 0.1}),
    "experts": (
        ops.experts,
        EXPERTS | {"gate": floats(4, 9, 37), "up": floats(4, 9, 37), "down": floats(4, 5, 9), "up_bias": floats(4, 9)},
    ),
    "experts in blocks": (ops.experts_q8, EXPERTS | {"x": floats(7, 64), **{n: stack("Q4_0") for n in ("gate", "up", "down")}}),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("isa", NAMES)
def test_arguments_may_end_where_memory_ends(isa, name):
    op, call = CALLS[name]
    guarded = {n: at_the_edge(v) if isinstance(v, (np.ndarray, Blocks)) else v for n, v in call.items()}
    want = run(portable(isa), op, **{n: v.copy() if isinstance(v, np.ndarray) else v for n, v in call.items()})
    for got, wanted in zip(several(run(portable(isa), op, **guarded)), several(want), strict=True):
        assert got.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("isa", NAMES)
def test_nothing_is_written_behind_a_result(isa, name, monkeypatch):
    op, call = CALLS[name]
    given = []

    def alloc(nbytes, zero=False, scratch=False):
        held = make(nbytes, zero, scratch)
        if scratch:
            held.buffer[...] = SLACK
            given.append((held.buffer, nbytes))
        return held

    make = HOST.alloc
    monkeypatch.setattr(HOST, "alloc", alloc)
    run(portable(isa), op, **call)
    assert given
    for buffer, nbytes in given:
        assert (buffer[nbytes:] == SLACK).all()


@pytest.mark.parametrize("isa", NAMES)
def test_ids_outside_a_table_read_nothing_outside(isa):
    """A caller's error, which must not become a fault."""
    table, ids = of(at_the_edge(floats(5, 8))), whole_numbers(5, -1, 2**31 - 1, -(2**31))
    kernel = portable(isa).kernels["embedding"].function
    assert np.isfinite(kernel(table=table, ids=of(ids)).numpy()).all()
