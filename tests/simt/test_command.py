import json
from pathlib import Path

import numpy as np
import pytest

from vtcore.cli import main

SUM = """
#include <cuda_runtime.h>
__device__ float twice(float v) { return v + v; }
extern "C" __global__ void __launch_bounds__(64) sum(const float* __restrict__ x, float* y, int n) {
    extern __shared__ float part[];
    int lane = threadIdx.x, i = blockIdx.x * blockDim.x + lane;
    part[lane] = i < n ? twice(x[i]) : 0.0f;
    for (int k = 32; k > 0; k /= 2) {
        __syncthreads();
        if (lane < k) part[lane] += part[lane + k];
    }
    if (lane == 0) y[blockIdx.x] = part[0];
}
"""
SHUFFLED = """
extern "C" __global__ void sums(const float* x, float* y) {
    float v = x[threadIdx.x];
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
    y[threadIdx.x] = v;
}
extern "C" __global__ void partly(const float* x, float* y) {
    float v = x[threadIdx.x];
    if (threadIdx.x < 5) v = __shfl_xor_sync(0xffffffffu, v, 1);
    y[threadIdx.x] = v;
}
"""
METAL = """
#include <metal_stdlib>
using namespace metal;
struct P { uint n; float by; };
inline float get(threadgroup float* t, uint i) { return t[i]; }
kernel void turn(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], constant P& p [[buffer(2)]],
                 uint3 g [[threadgroup_position_in_grid]], uint l [[thread_index_in_threadgroup]], uint i [[thread_position_in_grid]]) {
    threadgroup float t[64];
    t[l] = i < p.n ? x[i] * p.by : 0.0f;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (i < p.n) y[i] = get(t, 63 - l) + float(g.x) + simd_sum(0.0f);
}
"""
OPENCL = """
__kernel __attribute__((reqd_work_group_size(8, 2, 1)))
void add(__global const float4* x, __global float4* y, __local float* room, const uint n) {
    size_t i = get_group_id(0) * 16 + get_local_id(1) * 8 + get_local_id(0);
    room[get_local_id(1) * 8 + get_local_id(0)] = 1.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (i < n) y[i] = x[i] + (float4)(1.0f, 2.0f, 3.0f, 4.0f) * room[15 - get_local_id(0)];
}
"""


@pytest.fixture
def simt(tmp_path, monkeypatch, capsys):
    """Runs a text with arguments: the exit status, and what was printed."""
    monkeypatch.chdir(tmp_path)

    def run(name, code, *arguments):
        (tmp_path / name).write_text(code)
        status = main(["simt", name, *arguments])
        shown = capsys.readouterr()
        return status, shown.out + shown.err

    return run


def test_a_right_kernel_of_each_language(simt):
    x = np.random.default_rng(0).standard_normal(128).astype(np.float32)
    np.save("x.npy", x)
    assert simt("sum.cu", SUM, "x=x.npy", "y=empty:2", "n=128", "shared=256", "--groups", "2", "--out", "y=y.npy")[0] == 0
    np.testing.assert_allclose(np.load("y.npy"), 2 * x.reshape(2, 64).sum(1), rtol=1e-5)
    assert simt("turn.metal", METAL, "x=x.npy", "y=empty:128", "n=128", "by=2", "--groups", "2", "--out", "y=y.npy")[0] == 0
    assert np.array_equal(np.load("y.npy"), (2 * x.reshape(2, 64)[:, ::-1] + np.float32([[0], [1]])).reshape(-1))
    np.save("v.npy", x.reshape(32, 4))
    given = ("x=v.npy", "y=empty:32x4", "room=64", "n=32", "--groups", "2", "--out", "y=y.npy")
    assert simt("add.cl", OPENCL, *given)[0] == 0
    assert np.array_equal(np.load("y.npy"), x.reshape(32, 4) + np.float32([1, 2, 3, 4]))


def test_a_cache_that_can_t_be_written_costs_only_time(simt, monkeypatch):
    (Path.cwd() / "file").write_text("no directory")
    monkeypatch.setenv("VTCORE_CACHE", "file")
    text = SUM.replace("v + v", "v + v + 0.0f")  # which wasn't compiled before
    assert simt("sum.cu", text, "x=random:64", "y=empty:1", "n=64", "shared=256")[0] == 0


def test_subgroups(simt):
    status, text = simt("s.cu", SHUFFLED, "x=zeros:64", "y=empty:64", "--kernel", "sums")
    assert (status, "passed" in text) == (0, True)
    status, text = simt("s.cu", SHUFFLED, "x=zeros:64", "y=empty:64", "--kernel", "partly")
    assert status == 1
    assert "barrier: a subgroup operation is reached by only a part of the subgroup: in group 0,0,0 work item 4 waits at line 9" in text


def test_findings_have_kinds_and_the_inputs_are_kept(simt):
    status, text = simt(
        "sum.cu", SUM.replace("__syncthreads();", ""), "x=random:64", "y=empty:1", "n=64", "shared=256", "--json", "--save", "in"
    )
    found = json.loads(text)
    assert (status, found["failed"], found["kernel"], found["group"]) == (1, True, "sum", [64, 1, 1])
    assert {f["kind"] for f in found["findings"]} == {"race", "uninitialised"}
    assert np.load("in/x.npy").shape == (64,)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (("y[blockIdx.x] =", "y[(int)blockIdx.x - 1] ="), "bounds: y is written before its first element: at [-1], and it has 1 elements"),
        (("y[blockIdx.x] =", "y[blockIdx.x + 1] ="), "bounds: y is written behind its last: at [1], and it has 1 elements"),
        (("i < n ? twice(x[i]) : 0.0f", "x[i + 1]"), "bounds: x is read outside of its bounds: y[0] is nan over NaN"),
        (("if (lane == 0) y[blockIdx.x]", "if (lane > 1) y[0]"), "race: the order of work items changes the result: y[0] is "),
        (("= part[0]", "+= part[0]"), "uninitialised: what was in memory before is read: y[0] is nan over NaN"),
        (("y[blockIdx.x] =", "y[1 << 28] ="), "crash: its process was ended by SIGSEGV"),
        (("k /= 2", "k = 32"), "time: it didn't end within 2 s"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(simt, change, kind):
    status, text = simt(
        "sum.cu", SUM.replace(*change), "x=random:64", "y=empty:1", "n=64", "shared=256", "--timeout", "2" if "time" in kind else "60"
    )
    assert status == 1
    assert kind in text


def test_elements_that_nobody_writes_are_a_note(simt):
    status, text = simt("sum.cu", SUM, "x=random:64", "y=empty:3", "n=64", "shared=256")
    assert status == 0
    assert "note: y: 2 of 3 elements are not written; the first is y[1]" in text


def test_an_expectation(simt):
    np.save("want.npy", np.float32([1]))
    given = ("x=zeros:64", "y=empty:1", "n=64", "shared=256", "--expect", "y=want.npy")
    status, text = simt("sum.cu", SUM, *given)
    assert status == 1
    assert "value: y[0] is 0.0; want.npy has 1.0, and 1e-05 is allowed" in text
    assert simt("sum.cu", SUM, *given, "--tolerance", "1")[0] == 0


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("sum.txt", (), "the name's end must say the language: .cu (cuda), .metal (metal), .cl (opencl)"),
        ("sum.cu", ("x=random:64",), "kernel sum isn't given y, n: name a value of each, such as y=random:1024"),
        ("sum.cu", ("x=random:64", "y=empty:1", "n=64", "z=1"), "kernel sum has no parameter z; it has x, y, n"),
        ("sum.cu", ("x=random:9999999x9999999", "y=empty:1", "n=64"), "of at most 1,073,741,824 bytes"),
        ("sum.cu", ("x=nowhere.npy", "y=empty:1", "n=64"), "nor an .npy file that can be read"),
        ("sum.cu", ("x=random:64", "y=empty:1", "n=1.5"), "n='1.5' is no int"),
        ("sum.cu", ("x=random:64", "y=empty:1", "n=64", "--group", "64,32"), "a group has 2048 work items; devices take at most 1024"),
        ("sum.cu", ("x=random:64", "y=empty:1", "n=64", "--kernel", "other"), "sum.cu holds no kernel 'other'; there are sum"),
        ("sum.cu", ("x=random:64", "y=empty:1", "n=64", "--tolerance", "1"), "--tolerance is of --expect"),
        ("sum.cu", ("x=random:64", "y=empty:1", "n=64", "--out", "q=a.npy"), "is no NAME=FILE with the name of a buffer (x, y)"),
    ],
)
def test_wrong_arguments(simt, name, arguments, words):
    status, text = simt(name, SUM, *arguments)
    assert status == 2
    assert words in text


def test_what_the_compiler_refuses_has_the_texts_own_line(simt):
    status, text = simt("sum.cu", SUM.replace("twice(x[i])", "thrice(x[i])"), "x=zeros:64", "y=empty:1", "n=64", "shared=256")
    assert status == 1
    assert "sum.cu:7" in text
    assert "thrice" in text
