"""Sums and maxima over a group: every lane has the same bits, by trees and by subgroups of any size."""

from functools import partial

import numpy as np
import pytest

from vtcore.memory import HOST
from vtcore.providers import ProviderOptions, find
from vtcore.providers.kernels import declare
from vtcore.providers.kernels.declare import buffers
from vtcore.providers.kernels.targets import cuda, glsl, metal, opencl
from vtcore.providers.opencl import make as make_opencl
from vtcore.simt import device as simt
from vtcore.tensor import empty, of

GROUPS = 3
BODY = "ST_sums(INDEX, GROUP_SUM(LD_x(INDEX))); ST_tops(INDEX, GROUP_MAX(LD_x(INDEX))); ST_again(INDEX, GROUP_SUM(LD_x(INDEX)));"
SOURCES = {
    "cuda": ("cuda", cuda.source),
    "metal": ("metal", metal.source),
    "opencl": ("opencl", opencl.source),
    "opencl by subgroups": ("opencl", partial(opencl.source, subgroups=True)),
}


@pytest.fixture
def reduces(monkeypatch):
    """A kernel of groups of a size."""
    monkeypatch.setattr(declare, "KERNELS", {})
    return lambda group: declare.kernel("reduces", buffers(reads="x", writes="sums tops again"), "", BODY, group=group)


def hold(device, kernel):
    """Runs the kernel, and holds what it gives against NumPy."""
    host = np.random.default_rng(0).standard_normal((GROUPS, kernel.group)).astype(np.float32) - np.float32(3)
    x = of(host)
    x.storage.at(device)
    outs = [empty(device, host.shape) for _ in range(3)]
    device.launch(kernel, [x, *outs], [], GROUPS)
    for out in outs:
        out.storage.at(HOST)
    sums, tops, again = (out.bare() for out in outs)
    np.testing.assert_allclose(sums[:, 0], host.astype(np.float64).sum(1), rtol=1e-6)
    np.testing.assert_array_equal(tops, np.broadcast_to(host.max(1, keepdims=True), host.shape))
    np.testing.assert_array_equal(sums, np.broadcast_to(sums[:, :1], host.shape))
    np.testing.assert_array_equal(sums, again)


@pytest.mark.parametrize("group", [32, 64, 256])
@pytest.mark.parametrize("name", SOURCES)
def test_texts_that_run_on_the_processor(name, group, reduces):
    hold(simt.ShimDevice(*SOURCES[name]), reduces(group))


@pytest.mark.parametrize("width", [4, 8, 64])
@pytest.mark.parametrize("name", ["metal", "opencl by subgroups"])
def test_no_size_of_subgroups_is_assumed(monkeypatch, name, width, reduces):
    monkeypatch.setattr(simt, "SUBGROUP", width)
    hold(simt.ShimDevice(*SOURCES[name]), reduces(64))


def test_a_group_that_is_no_whole_number_of_warps(reduces):
    kernel = reduces(16)
    assert "shfl" not in cuda.source(kernel)
    hold(simt.ShimDevice(*SOURCES["cuda"]), kernel)


@pytest.mark.parametrize("group", [64, 256])
@pytest.mark.parametrize("wanted", ["0", "1"])
def test_vulkan_with_subgroups_and_without(monkeypatch, wanted, group, reduces):
    monkeypatch.setenv("VTCORE_VULKAN_SUBGROUPS", wanted)
    provider = find("vulkan")
    hold(provider.device, reduces(group))
    provider.close()


def test_a_driver_that_declares_subgroups_and_compiles_none_gets_the_tree(reduces):
    provider = make_opencl(ProviderOptions())
    provider.device.limits = simt.LIMITS
    hold(provider.device, reduces(64))
    provider.close()


def test_only_kernels_that_reduce_have_two_texts_in_glsl(reduces):
    plain, by_subgroups = glsl.sources(reduces(64))
    assert "subgroup" not in plain
    assert "subgroupAdd" in by_subgroups
    other = declare.kernel("copies", buffers(reads="x", writes="y"), "", "ST_y(INDEX, LD_x(INDEX));")
    assert glsl.sources(other) == (glsl.source(other, subgroups=True),)
