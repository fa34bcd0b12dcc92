import os
import re

import numpy as np
import pytest

from vtcore.errors import ProviderError, ProviderUnavailableError
from vtcore.memory import HOST
from vtcore.providers.gpu.views import STRIDED_COPY
from vtcore.providers.kernels.declare import Kernel, Shared, buffers
from vtcore.providers.kernels.targets import cuda, metal, opencl
from vtcore.simt.compiler import CHOICE, compiler, library
from vtcore.simt.device import ShimDevice
from vtcore.simt.provider import stand_in
from vtcore.tensor import empty, of

TARGETS = {"cuda": cuda.source, "metal": metal.source, "opencl": opencl.source}
REVERSE = "tile[LANE] = LD_x(INDEX); BARRIER(); ST_y(INDEX, tile[WG - 1u - LANE]);"
ORDER = "its results change with the order"
WRONG = {
    "a barrier that is missing": (REVERSE.replace("BARRIER();", ""), ORDER),
    "two work items that write one place": ("ST_y(GROUP, LD_x(INDEX));", ORDER),
    "groups that write one place": ("if (LANE == 0u) ST_y(0u, LD_x(INDEX));", ORDER),
    "shared memory that nobody wrote": (
        "if (LANE > 0u) tile[LANE] = 1.0f; BARRIER(); ST_y(INDEX, tile[0]);",
        "what shared memory held before",
    ),
    "a barrier that a part reaches": (
        "if (LANE < 3u) {\n BARRIER();\n}\nST_y(INDEX, LD_x(INDEX));",
        r"reached by only a part of the workgroup: in group [01],0,0 work item 2 waits at line \d+, and work item \d has ended",
    ),
    "different barriers": (
        "if (LANE < 3u) {\n BARRIER();\n} else {\n BARRIER();\n}\nST_y(INDEX, 1.0f);",
        r"work item 2 waits at line \d+, and work item 7 is at",
    ),
}  # fmt: skip


def run(language, body):
    device = ShimDevice(language, TARGETS[language])
    x = of(np.arange(16, dtype=np.float32))
    x.storage.at(device)
    y = empty(device, (16,))
    kernel = Kernel("vt_try", buffers(reads="x", writes="y"), (), body, shared=(Shared("tile", "f32", "WG"),), group=8)
    device.launch(kernel, [x, y], [], 2)
    y.storage.at(HOST)
    return y.bare()


@pytest.mark.parametrize("language", TARGETS)
def test_a_right_kernel_runs(language):
    assert run(language, REVERSE).tolist() == [7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8]


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("language", TARGETS)
def test_a_wrong_kernel_is_found(language, what):
    body, words = WRONG[what]
    with pytest.raises(ProviderError, match=words):
        run(language, body)


def test_several_kernels_make_one_library(monkeypatch):
    device = ShimDevice("cuda", cuda.source)
    device.compile(STRIDED_COPY.variants)
    monkeypatch.setattr("vtcore.simt.program.library", lambda text: pytest.fail("it is compiled again"))
    x, y = of(np.arange(6, dtype=np.float16).reshape(2, 3)), empty(device, (3, 2))
    x.storage.at(device)
    device.each(STRIDED_COPY, [x, y], [1, 1, 1, 3, 2, 0, 0, 0, 0, 1, 3], 6)
    y.storage.at(HOST)
    assert y.bare().tolist() == [[0, 3], [1, 4], [2, 5]]


def test_what_the_compiler_refuses_is_shown():
    with pytest.raises(ProviderError, match=r"(?s)doesn't take the kernel's text: .*vt_try:\d+.*nothing"):
        run("cuda", "ST_y(INDEX, nothing(1.0f));")


def test_without_a_compiler_the_way_out_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv(CHOICE, "no-such-compiler -x")
    with pytest.raises(ProviderUnavailableError, match="CXX names 'no-such-compiler', which isn't there; install one"):
        compiler()
    monkeypatch.setenv(CHOICE, "")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProviderUnavailableError, match=r"neither of g\+\+, clang\+\+, c\+\+ is there; install one \(Debian: apt-get"):
        compiler()


def test_another_compiler_makes_the_same(monkeypatch):
    monkeypatch.setenv(CHOICE, "g++ -O2")
    assert compiler() == ("g++", "-O2")
    assert run("cuda", REVERSE)[0] == 7


def test_what_was_compiled_is_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("VTCORE_CACHE", str(tmp_path))
    text = 'extern "C" int one() { return 1; }'
    first = library(text)
    assert re.fullmatch(r"[0-9a-f]{32}\.so", first.name)
    made = first.stat().st_ino
    assert library(text) == first
    assert first.stat().st_ino == made
    os.utime(first, (0, 0))
    library(text)
    assert first.stat().st_mtime > 0  # it was used
    assert [p.name for p in first.parent.iterdir()] == [first.name]


@pytest.mark.parametrize("name", ["cuda", "metal"])
def test_where_the_hardware_is_missing_the_report_says_so(name):
    provider = stand_in(name, "no driver")
    assert provider.facts["device"] == "none (no driver)"
    assert f"no {name} device took part" in provider.facts["note"]
    assert "never run on real hardware" in provider.facts["note"]
