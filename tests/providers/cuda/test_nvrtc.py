"""NVRTC needs no device: every CUDA text is compiled for the architectures that are supported."""

import check_nvrtc
import pytest

from vtcore.errors import ProviderError
from vtcore.providers.cuda import nvrtc

SPILLING = """
extern "C" __global__ void __launch_bounds__(1024) many(float* y, int n) {
    float a[200];
    #pragma unroll
    for (int i = 0; i < 200; i++) a[i] = y[i * n];
    for (int k = 0; k < n; k++) {
        #pragma unroll
        for (int i = 0; i < 200; i++) a[i] = a[i] * a[(i * 7 + 3) % 200] + a[(i * 11 + 5) % 200] * y[k];
    }
    #pragma unroll
    for (int i = 0; i < 200; i++) y[i] = a[i];
}
"""


@pytest.mark.parametrize("architecture", [*check_nvrtc.FULLY, *check_nvrtc.PARTLY])
def test_no_kernel_spills(architecture):
    found = list(check_nvrtc.taken(check_nvrtc.chosen(architecture), architecture))
    assert len(found) > 20
    assert [use for use in found if use.spilled] == []


def test_what_spills_is_seen():
    (use,) = nvrtc.uses(SPILLING, "sm_75")
    assert use.kernel == "many"
    assert use.spilled > 0


def test_what_it_refuses_is_shown():
    with pytest.raises(ProviderError, match=r"(?s)NVRTC for sm_90 doesn't take the kernel's text: .*nothing"):
        nvrtc.build("nothing", "sm_90")


def test_without_a_place_to_keep_it_it_is_compiled_all_the_same(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("not a directory")
    monkeypatch.setenv("VTCORE_CACHE", str(tmp_path / "file"))
    assert nvrtc.compiled('extern "C" __global__ void two(float* y) { y[0] = 2.0f; }', "sm_90")[:4] == b"\x7fELF"


def test_machine_code_is_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("VTCORE_CACHE", str(tmp_path))
    text = 'extern "C" __global__ void one(float* y) { y[0] = 1.0f; }'
    code = nvrtc.compiled(text, "sm_90")
    assert code[:4] == b"\x7fELF"
    monkeypatch.setattr(nvrtc, "build", lambda *_: pytest.fail("it is compiled again"))
    assert nvrtc.compiled(text, "sm_90") == code


def test_machine_code_that_was_damaged_on_disk_is_made_again(monkeypatch, tmp_path):
    monkeypatch.setenv("VTCORE_CACHE", str(tmp_path))
    text = 'extern "C" __global__ void three(float* y) { y[0] = 3.0f; }'
    code = nvrtc.compiled(text, "sm_90")
    [file] = tmp_path.rglob("*.cubin")
    file.write_bytes(file.read_bytes()[:-1])
    assert nvrtc.compiled(text, "sm_90") == code
    monkeypatch.setattr(nvrtc, "build", lambda *_: pytest.fail("it is compiled again"))
    assert nvrtc.compiled(text, "sm_90") == code


def test_a_log_of_nothing_is_written_into_no_object_of_python_s():
    nvrtc.build('extern "C" __global__ void k(float* x) { x[0] = 1.0f; }', "sm_90")
    assert [bytes([i])[0] for i in range(256)] == list(range(256))
