"""SPIR-V is shipped, kept or compiled; where it can't be had, the op runs elsewhere and the report says why."""

import sys
from dataclasses import replace

import build_spirv
import numpy as np
import pytest

from vtcore import ops
from vtcore.dispatch import Dispatcher
from vtcore.errors import KernelBuildError
from vtcore.providers import find
from vtcore.providers.gpu import provider as accelerators
from vtcore.providers.kernels import lint
from vtcore.providers.kernels.declare import buffers
from vtcore.providers.kernels.ops.norm import RMS_NORM
from vtcore.providers.kernels.targets import glsl
from vtcore.providers.vulkan import spirv
from vtcore.providers.vulkan.module import HEADER, NAMES, WORDS, instructions
from vtcore.providers.vulkan.pipelines import shared_bytes
from vtcore.tensor import of

VARIANT = RMS_NORM.variants[0]


@pytest.fixture
def nothing_shipped(monkeypatch, tmp_path):
    monkeypatch.setattr(spirv, "shipped", lambda digest: None)
    monkeypatch.setenv("VTCORE_CACHE", str(tmp_path))


def test_what_is_shipped_wins(monkeypatch):
    monkeypatch.setattr(spirv, "shipped", lambda digest: digest.encode())
    assert spirv.of(VARIANT) == spirv.digest(glsl.source(VARIANT)).encode()


def test_what_was_compiled_once_is_kept(nothing_shipped, monkeypatch):
    code = spirv.of(VARIANT)
    assert code[:4] == bytes.fromhex("03022307")
    monkeypatch.setenv("PATH", "")
    assert spirv.of(VARIANT) == code


@pytest.mark.parametrize("damage", [lambda b: b[:-8], lambda b: b[:300] + bytes([b[300] ^ 255]) + b[301:], lambda b: b"", lambda b: b[32:]])
def test_what_is_damaged_on_disk_is_compiled_again_and_no_driver_sees_it(nothing_shipped, tmp_path, damage):
    code = spirv.of(VARIANT)
    [file] = tmp_path.rglob("*.spv")
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert spirv.of(VARIANT) == code
    assert file.read_bytes() == whole


def test_other_texts_have_other_names():
    assert spirv.digest("a") != spirv.digest("b")


def test_operations_on_floats_are_marked_and_names_are_gone(nothing_shipped):
    opcodes = [int(i[0]) & 0xFFFF for i in instructions(np.frombuffer(spirv.of(VARIANT), WORDS))]
    assert NAMES.isdisjoint(opcodes)
    marked = [i for i in instructions(np.frombuffer(spirv.of(VARIANT), WORDS)) if int(i[0]) == 3 << 16 | 71 and int(i[2]) == 42]
    assert len(marked) >= opcodes.count(133) + opcodes.count(129) > 0
    assert HEADER == 5


def test_without_a_compiler_the_op_runs_elsewhere(nothing_shipped, monkeypatch):
    monkeypatch.setenv("PATH", "")
    provider = find("vulkan")
    dispatcher, x = Dispatcher([provider]), np.ones((2, 8), np.float32)
    with dispatcher:
        for _ in range(2):
            out = ops.rms_norm(of(x), None, 1e-6)
    np.testing.assert_allclose(out.numpy(), x, rtol=1e-5)
    ((decline, times),) = dispatcher.declines.items()
    assert times == 2
    for words in ("rms_norm: kernel vt_rms_norm_f32: vtcore ships no SPIR-V for its text as it is now", "glslc", "isn't on PATH"):
        assert words in decline.reason
    assert dict(dispatcher.ran) == {("rms_norm", "reference"): 2}
    provider.close()


def test_a_body_that_glsl_refuses_is_told_with_the_compiler_s_words(nothing_shipped, made):
    with lint.trusted():
        wrong = made("wrong", buffers(reads="x", writes="y"), "n", "ST_y(INDEX, nowhere);")
    with pytest.raises(KernelBuildError, match=r"kernel vt_wrong: glslc says: .*'nowhere' : undeclared identifier"):
        spirv.of(wrong)


def test_a_compiler_that_doesn_t_run_is_told(nothing_shipped, monkeypatch, tmp_path):
    broken = tmp_path / "glslc"
    broken.write_text(f"#!{sys.executable}\nraise SystemExit('no licence')\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KernelBuildError, match="glslc says: no licence"):
        spirv.of(VARIANT)


def test_a_kernel_that_wants_more_than_the_device_has(device, made, monkeypatch):
    monkeypatch.setattr(lint, "check", lambda kernel: None)
    large = made("large", buffers(reads="x", writes="y"), "n", "ST_y(0u, tile[0]);", shared=[("tile", "f32", "WG * 1024u")])
    assert shared_bytes(large) == 4 * 64 * 1024
    with pytest.raises(KernelBuildError, match=r"kernel vt_large on llvmpipe.*: its groups share 262,144 bytes; the device has 32,768"):
        device.pipelines.pipe(large)
    names = " ".join(f"b{i}" for i in range(device.pipelines.bindings))
    many = made("many", buffers(reads=names, writes="y"), "n", "ST_y(0u, LD_b0(0u));")
    with pytest.raises(KernelBuildError, match=r"it sees \d+ buffers; the device shows a kernel"):
        device.pipelines.pipe(many)
    wide = made("wide", buffers(reads="x", writes="y"), "n", "ST_y(0u, LD_x(0u));", group=1 << 20)
    with pytest.raises(KernelBuildError, match=r"its groups have 1048576 work items; the device takes"):
        device.pipelines.pipe(wide)


def test_an_op_that_stopped_after_it_changed_something_does_not_run_again(device, made, there):
    add = made("once", buffers(updates="x"), "total", "if (INDEX < total) ST_x(INDEX, LD_x(INDEX) + 1.0f);")
    with lint.trusted():
        wrong = made("never", buffers(updates="x"), "total", "if (INDEX < total) ST_x(INDEX, nowhere);")

    def twice(device, pages, values, slots):
        device.each(add, [pages], [], 4)
        device.each(wrong, [pages], [], 4)

    entry = replace(accelerators.table()["write_pages"], function=twice)
    (x,) = there(device, np.zeros(4, np.float32))
    with pytest.raises(accelerators.ProviderError, match="write_pages stopped half-way on vulkan, with its arguments changed"):
        accelerators._on(entry, device)(pages=x, values=None, slots=None)


def test_a_file_of_other_texts_is_stale(monkeypatch):
    monkeypatch.setattr(spirv, "packed", lambda: {"a" * 32: None, "b" * 32: None})
    wanted = {"a" * 32: ("vt_kept", ""), "c" * 32: ("vt_new", "")}
    assert build_spirv.stale(wanted) == ["vt_new is missing", "1 modules are of texts that there are no more"]
    assert build_spirv.stale({"a" * 32: ("vt_kept", ""), "b" * 32: ("vt_old", "")}) == []
