"""Every kernel's text for CUDA and for Metal, compiled and run, each launch in two orders, against the definitions."""

import pytest

from vtcore.conformance.case import cases
from vtcore.conformance.trial import glance
from vtcore.op import REGISTRY
from vtcore.simt.device import MOST
from vtcore.simt.provider import stand_in


@pytest.mark.parametrize("name", ["cuda", "metal"])
def test_every_sample_of_every_op_comes_out_right(name, variants):
    provider = stand_in(name)
    for begin in range(0, len(variants), MOST):
        provider.device.compile(variants[begin : begin + MOST])
    compiled = set(provider.device._programs)
    seen = [glance(provider, case) for op in provider.kernels for case in cases(REGISTRY[op])]
    assert [v for v in seen if v.bad] == []
    assert {v.case.op.name for v in seen if v.outcome == "pass"} == set(provider.kernels)
    assert set(provider.device._programs) == compiled  # and no other variant was met
