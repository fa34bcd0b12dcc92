"""Every sample of every op that has a kernel, under each instruction set that this machine runs."""

import pytest

from tests.providers.portable.instances import NAMES, WITHOUT_EXTRAS, portable
from vtcore.conformance.case import cases
from vtcore.conformance.trial import glance
from vtcore.op import REGISTRY


@pytest.mark.parametrize("op", sorted(portable().kernels))
@pytest.mark.parametrize("isa", NAMES)
def test_samples_are_as_the_definitions_say(isa, op):
    judged = [glance(portable(isa), case) for case in cases(REGISTRY[op])]
    assert judged
    assert [str(v) for v in judged if v.outcome not in ("pass", "declined")] == []
    assert not [v.reason for v in judged if v.outcome == "declined"]


@pytest.mark.parametrize("isa", WITHOUT_EXTRAS)
def test_products_of_bytes_without_their_instruction(isa):
    assert [str(v) for c in cases(REGISTRY["linear_q8"]) if (v := glance(portable(isa), c)).outcome != "pass"] == []


def test_what_a_model_needs_has_a_kernel():
    needed = (
        "linear linear_q8 embedding rms_norm add_rms_norm layer_norm l2_norm silu_mul gelu_mul rotate rope_angles write_pages "
        "paged_attention add mul scale softcap sigmoid_mul concat argmax softmax log_softmax"
    )
    assert set(needed.split()) <= set(portable().kernels)
