from dataclasses import replace

import pytest

from vtcore.errors import ProviderError
from vtcore.providers.gpu.table import table
from vtcore.providers.gpu.views import STRIDED_COPY
from vtcore.providers.kernels import declare as module
from vtcore.providers.kernels import lint
from vtcore.providers.kernels.declare import KERNELS, Kernel, Scalar, Shared, buffers
from vtcore.providers.kernels.declare import kernel as declare
from vtcore.providers.kernels.targets import cuda


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
        ("for (uint i = LANE; i < n; i += WG) { float s = GROUP_SUM(1.0f); }", r"under \(i < n\)"),
        ("if (n) ST_y(INDEX, 1.0f);", "n is a number where a bool belongs; compare it, such as n > 0u"),
        ("bool b = n > 1u; if (b && n) ST_y(INDEX, 1.0f);", "n is a number beside &&"),
        ("ST_y(INDEX, n ? 1.0f : 2.0f);", "n is a number where a bool belongs"),
        ("if ((n & 1u) && INDEX < n) ST_y(INDEX, 1.0f);", r"n & 1u is a number beside &&; compare it, such as \(n & 1u\) > 0u"),
        ("for (uint i = n; i; i--) ST_y(INDEX, 1.0f);", "i is a number where a bool belongs"),
        ("bool b = n; if (b) ST_y(INDEX, 1.0f);", "b is a bool, and n is a uint"),
        ("int i = n; ST_y(INDEX, F32(i));", r"i is an int, and n is a uint: write I32\(n\)"),
        ("uint u = LD_x(INDEX); ST_y(u, 1.0f);", r"u is a uint, and LD_x\(INDEX\) is a float: write U32\(LD_x\(INDEX\)\)"),
        ("ST_y(INDEX, F32(min(n, 3)));", "min takes two numbers of one type, and is given int, uint"),
        ("ST_y(INDEX, exp(n));", r"exp takes a float, and n is a uint: write F32\(n\)"),
        ("ST_y(INDEX, LD_x(INDEX) % 2.0f);", "% is of numbers, and this is a float"),
        ("bool b = true; ST_y(INDEX, b + 1.0f);", r"\+ is of numbers, and this is a bool"),
        ("bool b = true; ST_y(INDEX, -b);", "- of b, which is a bool"),
        ("ST_y(LD_x(0u), 1.0f);", r"ST_y takes a uint, and LD_x\(0u\) is a float"),
        ("ST_y(INDEX, 1E-5);", "1E-5 is no number of the dialect"),
        ("ST_y(INDEX, .5);", ".5 is no number of the dialect"),
        ("ST_y(010, 1.0f);", "010 is no number of the dialect"),
        ("ST_y(4294967296u, 1.0f);", "4294967296u doesn't fit 32 bits"),
        ("ST_y(0xff800000, 1.0f);", "0xff800000 doesn't fit an int; write it with u"),
        ("uint3 v; ST_y(INDEX, 1.0f);", "uint3 is no type of the dialect"),
        ("uint8_t v = 1u; ST_y(INDEX, 1.0f);", "uint8_t is no type of the dialect"),
        ("struct A { float a; }; ST_y(INDEX, 1.0f);", "struct is no type of the dialect"),
        ("static float v = 1.0f; ST_y(INDEX, v);", "static is no type of the dialect"),
        ("ST_y(INDEX, INFINITY);", "nothing is called INFINITY"),
        ("ST_y(INDEX, LD_z(0u));", "there is no function LD_z"),
        ("ST_y(INDEX, F32(U8_x(0u)));", "there is no function U8_x"),
        ("ST_y(INDEX, x[0]);", "nothing is called x"),
        ("ST_y(INDEX, tile);", "tile is an array: name an element"),
        ("ST_y(INDEX, n[0]);", "n is no array"),
        ("ST_y(INDEX, tile[1.0f]);", r"\[1.0f\]: a place is a whole number"),
        ("ST_y(INDEX, rint(1.0f));", "there is no function rint"),
        ("ST_y(INDEX, BARRIER());", "BARRIER gives no value"),
        ("LD_x(INDEX) = 1.0f;", "is no variable"),
        ("LD_x(INDEX) + 1.0f;", "does nothing"),
        ("ST_y(INDEX);", "ST_y takes 2 values, and is given 1"),
        ("n = 3u; ST_y(INDEX, 1.0f);", "n is the same for all: it can't be changed"),
        ("LANE++; ST_y(INDEX, 1.0f);", "LANE is the same for all: it can't be changed"),
        ("float n = 1.0f; ST_y(INDEX, n);", "n is declared already"),
        ("float y_off = 1.0f; ST_y(INDEX, y_off);", "y_off is declared already"),
        ("float v[2.0f]; ST_y(INDEX, v[0]);", "the length of v is no whole number"),
        ("if (n = 3u) ST_y(INDEX, 1.0f);", r"\) is missing before ="),
        ("if (INDEX < n) { ST_y(INDEX, 1.0f);", "a value is missing before the end"),
        ("ST_y(INDEX, 1.0f)", "; is missing before the end"),
        ("ST_y(INDEX, 1.0f); @", "'@' begins no word of the dialect"),
        ("return 1.0f;", "it returns 1.0f, and gives nothing"),
        ("break;", "break stands in no loop"),
        ("ST_y(INDEX, " + "(" * 101 + "1.0f" + ")" * 101 + ");", "more than 100 statements or brackets"),
    ],
)
def test_what_a_target_would_refuse_is_told(body, words):
    with pytest.raises(ProviderError, match=f"kernel vt_try: .*{words}"):
        lint.check(kernel(body))


@pytest.mark.parametrize(
    ("body", "under"),
    [
        ("uint m = LANE; if (m < n) BARRIER();", "m < n"),
        ("float v = LD_x(INDEX); if (v > 0.0f) BARRIER();", "v > 0.0f"),
        ("float v = INDEX < n ? GROUP_SUM(1.0f) : 0.0f;", "INDEX < n"),
        ("bool b = INDEX < n && GROUP_SUM(1.0f) > 0.0f;", "INDEX < n"),
        ("for (uint i = 0u; i < n; i++) { if (LANE > i) break; BARRIER(); }", "LANE > i"),
        ("for (uint i = 0u; i < n; i++) { if (LANE > i) continue; BARRIER(); }", "LANE > i"),
        ("uint m = 0u; while (m < n) { BARRIER(); m += LANE; }", "m < n"),
        ("do { BARRIER(); } while (LANE < n);", "LANE < n"),
        ("for (uint i = 0u; i < n; i++) { BARRIER(); if (LANE > i) return; }", "LANE > i"),
        ("uint m = 0u; if (LANE < 3u) m = 1u; if (m > 0u) BARRIER();", "m > 0u"),
        ("float v[2]; v[0] = F32(LANE); if (v[1] > 0.0f) BARRIER();", r"v\[1\] > 0.0f"),
        ("float v = F32(LANE); for (uint i = 0u; i < n; i++) { if (v > 0.0f) BARRIER(); v = GROUP_MAX(v); v = F32(LANE); }", "v > 0.0f"),
        ("float v = F32(LANE); v = GROUP_MAX(v); for (uint i = 0u; i < n; i++) { if (v > 0.0f) BARRIER(); v = F32(LANE); }", "v > 0.0f"),
    ],
)
def test_a_barrier_that_only_some_may_reach_is_told_however_they_part(body, under):
    with pytest.raises(ProviderError, match=rf"line 2: .* stands where only some work items come: under \({under}\)"):
        lint.check(kernel("ST_y(INDEX, 1.0f);\n" + body))


@pytest.mark.parametrize(
    "helper", ["FN float f(uint i) { return LD_x(i); }", "FN uint f() { return LANE; }", "FN float f() { BARRIER(); }"]
)
def test_helpers_know_no_buffers(helper):
    with pytest.raises(ProviderError, match="helpers take values and give values"):
        lint.check(kernel("ST_y(INDEX, 1.0f);", helper))


@pytest.mark.parametrize(
    ("helper", "words"),
    [
        ("float f(float v) { return v; }", "FN is missing before float"),
        ("FN half_ f(float v) { return v; }", "half_ is no type of the dialect"),
        ("FN float f(float v) { return f(v); }", "there is no function f"),
        ("FN float f(float v) { return v * F32(n); }", "nothing is called n"),
        ("FN float f(float v) { return tile[0]; }", "nothing is called tile"),
        ("FN float f(float v) { return; }", "it returns nothing, and gives float"),
        ("FN uint f(float v) { return v; }", "it gives a uint, and v is a float"),
        ("FN float f(float v[4]) { return 1.0f; }", ", is missing before"),
        ("FN float rotate(float v) { return v; }", "rotate is a function of a target already"),
        ("FN float f(float v) { return v; }\nFN float f(uint v) { return 1.0f; }", "f is a function of a target already"),
    ],
)
def test_helpers_keep_the_rules_too(helper, words):
    with pytest.raises(ProviderError, match=f"kernel vt_try: helpers, line .*{words}"):
        lint.check(kernel("ST_y(INDEX, 1.0f);", helper))


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"buffers": buffers(reads="x:f64", writes="y")}, "x is of 'f64'; it may be of"),
        ({"scalars": (Scalar("n", "u64"),)}, "n is of 'u64'; it may be of u32, i32, f32"),
        ({"scalars": (Scalar("LANE", "u32"),)}, "'LANE' can't be a name"),
        ({"shared": (Shared("t", "f32", "8193"),)}, "its work items share 32,772 bytes; every device has 32,768"),
        ({"shared": (Shared("t", "f32", "WG * A * 2u"),), "constants": (("A", 100),)}, "share 51,200 bytes"),
        ({"shared": (Shared("t", "f32", "n"),)}, "the length 'n' is no number, constant or WG"),
        ({"constants": (("A", 1.5),)}, "the constant A is 1.5"),
        ({"constants": (("n", 1),)}, "a name is used twice: n"),
        ({"constants": (("sample", 1),)}, "'sample' can't be a name"),
        ({"group": 0}, "group=0: a group has 1 to 1024 work items"),
        ({"group": 2048}, "group=2048"),
        ({"name": "vt_a-b"}, "'vt_a-b' can't be a name"),
    ],
)
def test_what_is_declared_beside_the_body_keeps_the_rules(other, words):
    with pytest.raises(ProviderError, match=words):
        lint.check(replace(kernel("ST_y(INDEX, 1.0f);"), **other))


def test_every_reading_of_a_buffer_of_several_types_is_checked():
    lint.check(kernel("ST_y(INDEX, F32(LD_x(INDEX)));", names="x:f32|i32"))
    with pytest.raises(ProviderError, match="exp takes a float"):
        lint.check(kernel("ST_y(INDEX, exp(LD_x(INDEX)));", names="x:f32|i32"))


@pytest.mark.parametrize(
    "body",
    [
        "if (LANE == 0u) tile[0] = 1.0f;\nBARRIER();\nST_y(INDEX, tile[0]);",
        "for (uint k = 0u; k < n; k++) { if (LANE < k) { tile[LANE] = 0.0f; } BARRIER(); } ST_y(INDEX, tile[LANE]);",
        "bool b = n > 0u; if (b && INDEX < n) ST_y(INDEX, 1.0f);",
        "ST_y(INDEX, 1.0f); // a barrier under if (n) { BARRIER(); }",
        "ST_y(INDEX, 1.0f); /* as\nhere: n && */",
        "float v = F32(LANE); v = GROUP_MAX(v); if (v > 3.0f) BARRIER(); ST_y(INDEX, v);",
        "for (uint i = 0u; i < n; i++) { if (i > 3u) break; BARRIER(); } ST_y(INDEX, 1.0f);",
        "for (uint i = LANE; i < n; i += WG) { if (i > 3u) continue; tile[i] = 1.0f; } BARRIER(); ST_y(INDEX, tile[LANE]);",
        "uint i = 0u, j = 9u; for (; i < n; i++, j--) ST_y(i, F32(j)); do { i -= 2u; } while (i > 0u && i < 9u);",
        "for (uint n = 0u; n < 3u; n++) { float i = n > 1u ? 1.0f : F32(n & 1u); ST_y(n, -i); }",
        "const uint m = 0xff800000u; PRECISE float v = AS_F32(m), w = .5f; ST_y(~m, v * w);",
        "if (tile[0] > 1.0f) BARRIER(); ST_y(INDEX, 1.0f); if (INDEX < n) return;",
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
    assert table()
    for declared in [*KERNELS.values(), STRIDED_COPY]:
        lint.check(declared)


def test_what_the_package_declares_is_read_by_this_test_and_not_at_each_start(monkeypatch):
    monkeypatch.setattr(lint, "check", lambda kernel: pytest.fail(f"{kernel.name} is read"))
    with lint.trusted():
        monkeypatch.setattr(module, "KERNELS", {})
        declare("trusted_try", buffers(writes="y"), "", "whatever")
    monkeypatch.undo()
    with pytest.raises(ProviderError, match="vt_other_try: body, line 1"):
        declare("other_try", buffers(writes="y"), "", "whatever")
