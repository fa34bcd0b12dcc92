"""Every planted fault is found, and called by its name. Where a fault gets through, an op lacks a sample."""

import pytest

from vtcore.conformance.check import check
from vtcore.conformance.faults import FAULTS
from vtcore.conformance.verdict import KINDS


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_a_fault_is_found_and_named(fault):
    bad = next((v for v in check(fault.provider(), [fault.op]) if v.bad), None)
    assert bad is not None, fault.says
    assert bad.kind == fault.kind, bad.reason


def test_there_are_many_and_each_says_what_it_is():
    assert len(FAULTS) >= 90
    assert len({f.op for f in FAULTS}) >= 40
    assert {f.kind for f in FAULTS} >= set(KINDS) - {"wrong_layout", "timed_out", "crashed"}
    assert len({f.name for f in FAULTS}) == len(FAULTS)
    assert all(len(f.says) > 15 for f in FAULTS)
