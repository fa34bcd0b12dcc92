from dataclasses import replace

import pytest

from vtcore.errors import ProviderError
from vtcore.op import REGISTRY
from vtcore.providers.kernels import lint
from vtcore.providers.kernels.declare import Kernel, Scalar, Shared, buffers
from vtcore.providers.kernels.targets import cuda
from vtcore.simt.used import used


def kernel(body, helpers="", names="x"):
    scalars = (Scalar("n", "u32"),)
    return Kernel("vt_try", buffers(reads=names, writes="y"), scalars, body, helpers, (Shared("tile", "f32", "WG"),))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("ST_y(INDEX, (float)n);", "a cast is F32"),
        ("ST_y(INDEX, 1.0);", "a float literal ends in f"),
        ("ST_y(INDEX, fmin(1.0f, 2.0f));", "write min, max, ABS or FMA"),
        ("ST_y(INDEX, expf(1.0f));", "functions of floats have no f at the end"),
        ("float* p = x;", "there are no pointers"),
        ("ST_y(INDEX, F32(sizeof(n)));", "sizeof is not in GLSL"),
        ("float4 v;", "float4 is no type of the dialect"),
        ("uchar v;", "uchar is no type of the dialect"),
        ("half v;", "half is a reserved word of a target"),
        ("float sample = 1.0f;", "sample is a reserved word of a target"),
        ("__local float v;", "names that begin with two underscores"),
        ("#define A 1", "a preprocessor line"),
        ("ST_y(threadIdx, 1.0f);", "work items are named by GROUP, LANE and INDEX"),
        ("ST_x(INDEX, 1.0f);", "it stores to x, which isn't declared as written"),
        ("if (n > 1u) return; BARRIER(); ST_y(0u, 1.0f);", "it returns before a barrier"),
        ("if (LANE < 3u) { BARRIER(); } ST_y(INDEX, 1.0f);", r"only some work items come: under \(LANE < 3u\)"),
        ("if (n > 1u) { } else if (INDEX < n) BARRIER(); ST_y(INDEX, 1.0f);", r"under \(INDEX < n\)"),
        ("if (LANE < 3u) { } else { BARRIER(); } ST_y(INDEX, 1.0f);", r"under \(LANE < 3u\)"),
        ("for (uint i = LANE; i < n; i += WG) { float s = GROUP_SUM(1.0f); }", r"under \(uint i = LANE"),
        ("if (n) ST_y(INDEX, 1.0f);", r"if \(n\): n is a number; compare it"),
        ("bool b = n > 1u; if (b && n) ST_y(INDEX, 1.0f);", "n is a number beside &&"),
    ],
)
def test_what_a_target_would_refuse_is_told(body, words):
    with pytest.raises(ProviderError, match=f"kernel vt_try: .*{words}"):
        lint.check(kernel(body))


@pytest.mark.parametrize(
    "helper", ["FN float f(uint i) { return LD_x(i); }", "FN uint f() { return LANE; }", "FN float f() { BARRIER(); }"]
)
def test_helpers_know_no_buffers(helper):
    with pytest.raises(ProviderError, match="helpers take values and give values"):
        lint.check(kernel("ST_y(INDEX, 1.0f);", helper))


@pytest.mark.parametrize(
    "body",
    [
        "if (LANE == 0u) tile[0] = 1.0f;\nBARRIER();\nST_y(INDEX, tile[0]);",
        "for (uint k = 0u; k < n; k++) { if (LANE < k) { tile[LANE] = 0.0f; } BARRIER(); } ST_y(INDEX, tile[LANE]);",
        "bool b = n > 0u; if (b && INDEX < n) ST_y(INDEX, 1.0f);",
        "ST_y(INDEX, 1.0f); // a barrier under if (n) { BARRIER(); }",
    ],
)
def test_what_is_right_passes(body):
    lint.check(kernel(body))


@pytest.mark.parametrize("resident", [-64, 32, 100, 2048])
def test_a_processor_holds_whole_groups(resident):
    with pytest.raises(ProviderError, match=f"resident={resident} is no whole number of groups of 64 work items, 1024 work items at most"):
        lint.check(replace(kernel("ST_y(INDEX, 1.0f);"), resident=resident))


@pytest.mark.parametrize(("resident", "bounds"), [(0, "(WG)"), (1024, "(WG, 16)")])
def test_cuda_is_told_how_many_groups_a_processor_holds(resident, bounds):
    text = cuda.source(replace(kernel("ST_y(INDEX, 1.0f);"), resident=resident))
    assert f"__launch_bounds__{bounds} vt_try(" in text


def test_every_kernel_that_there_is_passes():
    for variants in used(REGISTRY.values()).values():
        for variant in variants:
            lint.check(variant)
