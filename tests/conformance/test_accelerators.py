"""Every op on OpenCL and on Vulkan: each sample once. `vtcore check opencl` and `check vulkan` repeat them, and draw more calls."""

import pytest

from vtcore import ops
from vtcore.conformance.case import cases
from vtcore.conformance.trial import glance
from vtcore.op import REGISTRY
from vtcore.providers import find

DECLINED: dict[tuple[str, str], list[str]] = {}  # (provider, op) -> the reasons for which samples are declined, in order


@pytest.fixture(scope="module", params=("opencl", "vulkan"))
def accelerator(request):
    made = find(request.param)
    yield made
    made.close()


@pytest.mark.parametrize("name", sorted(ops.__all__))
def test_samples_are_as_the_definition_says_or_declined_for_a_reason_named_here(accelerator, name):
    verdicts = [glance(accelerator, case) for case in cases(REGISTRY[name])]
    assert [str(v) for v in verdicts if v.bad] == []
    assert [v.reason for v in verdicts if v.outcome == "declined"] == DECLINED.get((accelerator.name, name), [])
