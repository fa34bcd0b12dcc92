"""Instruction sets: which one is chosen, why another can't be, and that compiled code holds what it should, and calls nothing."""

import re

import llvmlite.binding as llvm
import numpy as np
import pytest

from tests.providers.portable.instances import NAMES, portable, run
from vtcore import ops
from vtcore.errors import ArgumentError, ProviderUnavailableError
from vtcore.providers import ProviderOptions, find
from vtcore.providers.portable import arrays
from vtcore.providers.portable.isa import Avx2, Avx512, Host, Isa, Neon, available, choose
from vtcore.providers.portable.jit import assembly
from vtcore.providers.portable.kernels import elementwise, embedding, linear, linear_q8, norm, rope, rows
from vtcore.tensor import of

ARM = Host("aarch64-unknown-linux-gnu", "generic", frozenset({"neon", "dotprod"}), "+neon,+dotprod")
OLD_ARM = Host("aarch64-unknown-linux-gnu", "generic", frozenset({"neon"}), "+neon")
RISCV = Host("riscv64-unknown-linux-gnu", "generic-rv64", frozenset(), "+m,+a,+f,+d")
INTEL = Host("x86_64-unknown-linux-gnu", "alderlake", frozenset({"avx2", "fma", "f16c", "avxvnni"}), "+avx2,+fma,+f16c,+avxvnni")
SKYLAKE = frozenset(Avx512.needs)

# one of each kind of code that the kernels are made of
KERNELS = [
    (linear_q8.linear_rounded, {"kind": "Q8_0", "bias_dtype": "float16", "rows": 2}),
    (linear_q8.linear_rounded, {"kind": "Q6_K", "bias_dtype": "float32", "rows": 2}),
    (linear_q8.round_activations, {"kind": "Q8_0"}),
    (linear.linear_blocks, {"kind": "Q5_K", "bias_dtype": "float32", "rows": 2}),
    (linear.linear_dense, {"dtype": "bfloat16", "bias_dtype": "bfloat16", "rows": 2}),
    (embedding.take_blocks, {"kind": "Q3_K", "ids_dtype": "int32"}),
    (elementwise.one, {"formula": "gelu", "dtype": "float16"}),
    (elementwise.one, {"formula": "softcap", "dtype": "float32"}),
    (norm.root_mean_square, {"weight_dtype": "float16"}),
    (rows.shares, {"logarithm": True}),
    (rows.largest, {}),
    (rope.angles, {"size": 4, "axes_size": 0}),
    (rope.turn, {"interleaved": True, "inverse": False}),
    (arrays.copy, {"dtype": "float16", "even": True}),
]
CALLS = re.compile(r"^\s+(?:call\w*|jmp|bl|b|tail|jal|j)\s+(?:\w+,\s*)?([A-Za-z_]\w*)", re.M)


def called(text: str) -> set[str]:
    """Symbols outside the function that the code jumps to."""
    defined = set(re.findall(r"^([\w.$]+):", text, re.M))
    return {name for name in CALLS.findall(text) if name not in defined and not re.fullmatch(r"[xwra]\d+|r\w\w|ra|t\d", name)}


def have(triple: str) -> bool:
    llvm.initialize_all_targets()
    try:
        llvm.Target.from_triple(triple)
    except RuntimeError:
        return False
    return True


CODE = [Isa(Host("x86_64-unknown-linux-gnu", "x86-64", frozenset(), "")), Isa(ARM), Neon(ARM), Neon(OLD_ARM), Avx2(INTEL), Isa(RISCV)]
HERE = [isa for isa in CODE if have(isa.machine.triple)]


@pytest.mark.parametrize("isa", HERE, ids=lambda isa: f"{isa}-{isa.machine.arch}")
def test_kernels_call_no_library(isa):
    for kernel, static in KERNELS:
        assert called(assembly(isa, kernel, **static)) == set(), kernel.name


def test_the_code_s_calls_would_be_seen():
    assert called("f:\n\tcallq\tfmaf@PLT\n\tjmp\t.LBB0_1\n") == {"fmaf"}
    assert called("f:\n\tbl\t__gnu_h2f_ieee\n\tb\t.LBB0_1\n\tblr\tx8\n") == {"__gnu_h2f_ieee"}
    assert called("f:\n\tcall\tf\n\tcallq\t*%rax\n") == set()


@pytest.mark.parametrize(
    ("isa", "kernel", "instructions"),
    [
        (Neon(ARM), 0, ("sdot", "fmul")),
        (Neon(ARM), 3, ("fmla", "cvtf")),
        (Neon(OLD_ARM), 0, ("mul",)),
        (Avx2(INTEL), 0, ("vpdpbusd", "vpsignb")),
        (Avx2(INTEL), 3, ("vfmadd", "vcvtph2ps")),
    ],
    ids=str,
)
def test_kernels_use_the_instructions_that_are_there(isa, kernel, instructions):
    if not have(isa.machine.triple):
        return
    text = assembly(isa, KERNELS[kernel][0], **KERNELS[kernel][1])
    for name in instructions:
        assert name in text
    assert "zmm" not in text
    assert "dotprod" in isa.extras or "sdot" not in text


def test_the_best_is_chosen(monkeypatch):
    monkeypatch.delenv("VTCORE_ISA", raising=False)
    assert choose(None, Host("x86_64-linux", "x", SKYLAKE | {"avx512vnni"}, "")).name == "avx512"
    assert choose(None, Host("x86_64-linux", "x", frozenset(Avx2.needs), "")).name == "avx2"
    assert choose(None, Host("x86_64-linux", "x", frozenset({"sse2"}), "")).name == "generic"
    assert choose(None, Host("arm64-apple-darwin", "apple-m1", frozenset(), "")).name == "neon"
    assert choose(None, RISCV).name == "generic"


def test_optional_features_show_in_the_name():
    assert str(choose("avx512", Host("x86_64-linux", "x", SKYLAKE | {"avx512vnni"}, ""))) == "avx512+vnni"
    assert str(choose("avx512", Host("x86_64-linux", "x", SKYLAKE, ""))) == "avx512"
    assert str(choose("neon", ARM)) == "neon+dotprod"


def test_the_variable_and_the_option_force_one(monkeypatch):
    monkeypatch.setenv("VTCORE_ISA", "generic")
    assert find("portable").isa.name == "generic"
    assert find("portable", ProviderOptions(isa=NAMES[0])).isa.name == NAMES[0]


def test_a_forced_one_that_the_cpu_lacks_is_an_error_that_names_what_is_missing():
    with pytest.raises(ProviderUnavailableError, match=r"'avx512' needs avx512f, .*avx512vl.* lacks; it runs avx2, generic"):
        choose("avx512", Host("x86_64-linux", "haswell", frozenset(Avx2.needs), ""))
    with pytest.raises(ProviderUnavailableError, match=r"'neon' needs architecture aarch64"):
        choose("neon", Host("x86_64-linux", "haswell", frozenset(Avx2.needs), ""))


def test_an_unknown_one_is_an_error_that_names_those_there_are(monkeypatch):
    monkeypatch.setenv("VTCORE_ISA", "mmx")
    with pytest.raises(ArgumentError, match=r"'mmx'; there are avx512, avx2, neon, generic \(VTCORE_ISA"):
        find("portable")


def test_every_machine_runs_the_generic_one():
    assert available(RISCV) == ["generic"]
    assert NAMES[-1] == "generic"


@pytest.mark.parametrize("isa", NAMES)
def test_float16_is_converted_as_numpy_does(isa):
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    np.testing.assert_array_equal(run(portable(isa), ops.scale, x=every, factor=1.0), every.astype(np.float32))


@pytest.mark.parametrize("isa", NAMES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_stored_values_are_rounded_to_nearest_even(isa, dtype):
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, 40000, dtype=np.uint64).astype(np.uint32)
    bits[:20000] &= np.uint32(0xFFFFF000)  # many ties
    values = bits.view(np.float32)
    edges = np.float32([0, -0.0, 65504, 65519.9, 65520, 1e-8, 2**-25, 3 * 2**-26, np.inf, -np.inf])
    values = np.concatenate([values[np.isfinite(values)], edges])
    held, slots = of(np.zeros((1, len(values)), dtype)), np.arange(len(values), dtype=np.int32)
    run(portable(isa), ops.write_pages, pages=held, values=values, slots=slots)
    with np.errstate(over="ignore"):
        assert held.numpy().tobytes() == values.astype(np.dtype(dtype))[None].tobytes()


@pytest.mark.parametrize("isa", NAMES)
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_8_bit_floats_are_read_and_written_as_ml_dtypes_does(isa, dtype):
    every = np.arange(256, dtype=np.uint8).view(dtype)
    borders = every.astype(np.float32)
    ordered = np.sort(borders[np.isfinite(borders)])
    middles = (ordered[1:] + ordered[:-1]) / 2  # ties
    drawn = np.random.default_rng(0).normal(0, 1, 4000)
    values = np.concatenate([borders, middles, np.nextafter(middles, -9), np.nextafter(middles, 9), drawn]).astype(np.float32)
    values = np.concatenate([values, np.float32([1e9, -1e9, np.inf, -np.inf, np.nan, 1e-30, -1e-45])])
    held, slots = of(np.zeros((1, len(values)), dtype)), np.arange(len(values), dtype=np.int32)
    run(portable(isa), ops.write_pages, pages=held, values=values, slots=slots)
    want = np.clip(values, -ordered[-1], ordered[-1]).astype(dtype)
    assert held.numpy().tobytes() == want.tobytes()


@pytest.mark.parametrize("isa", NAMES)
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_every_8_bit_float_is_attended_to_as_itself(isa, dtype):
    """One entry a request: what comes out is its value."""
    every = np.arange(256, dtype=np.uint8).view(dtype).reshape(16, 1, 1, 16)
    one = np.ones((16, 1, 1, 16), np.float32)
    numbers = np.arange(16, dtype=np.int32)
    zeros, ends = np.zeros(16, np.int32), np.arange(17, dtype=np.int32)
    call = {"table": numbers[:, None], "starts": ends, "lengths": zeros + 1, "until": zeros, "scale": 1.0}
    got = run(portable(isa), ops.paged_attention, q=one[:, 0], k_pages=one, v_pages=every, **call)
    np.testing.assert_array_equal(got, every.astype(np.float32)[:, 0])
