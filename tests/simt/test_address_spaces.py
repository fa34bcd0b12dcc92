import pytest

from vtcore.errors import ProviderError, ProviderUnavailableError
from vtcore.providers.kernels.targets import metal
from vtcore.simt.address_spaces import check
from vtcore.simt.program import Text

GOOD = """
#include <metal_stdlib>
using namespace metal;
inline float first(threadgroup float* t) { return t[0]; }
kernel void k(device float* y [[buffer(0)]], constant uint& n [[buffer(1)]], uint i [[thread_position_in_grid]]) {
    threadgroup float t[4];
    t[0] = 1.0f;
    if (i < n) y[i] = first(t);
}
"""


def test_every_text_keeps_them_apart(variants):
    check([Text(metal.source(v), "metal", v.name) for v in variants])


@pytest.mark.parametrize(
    "change", [("(threadgroup float*", "(device float*"), ("(threadgroup float*", "(float*"), ("first(t)", "first(y)")]
)
def test_what_mixes_them_up_is_found(change):
    check([Text(GOOD, "metal")])
    with pytest.raises(ProviderError, match="no matching function for call to 'first'"):
        check([Text(GOOD.replace(*change), "metal")])


def test_without_clang_the_way_out_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProviderUnavailableError, match="apt-get install clang"):
        check([])
