"""No kernel that does nothing passes, of any op; each is called by its name."""

from functools import cache
from itertools import chain

import pytest

from vtcore.conformance.case import cases
from vtcore.conformance.check import check
from vtcore.conformance.fresh import fresh
from vtcore.conformance.nulls import NULLS
from vtcore.conformance.trial import run
from vtcore.op import REGISTRY

NAMES = sorted(n for n, op in REGISTRY.items() if op.reference.__module__.startswith("vtcore.ops."))


@cache
def calls(op):
    """What `check` runs, in another order: fresh ones first, where the cleverer ones fail."""
    return list(chain(fresh(op), cases(op)))


@pytest.mark.parametrize("name", NAMES)
def test_every_null_kernel_is_caught_and_named(name):
    op, fitting = REGISTRY[name], 0
    for null in NULLS.values():
        if not null.fits(op):
            continue
        fitting += 1
        provider = null.provider(op)
        bad = next((v for case in calls(op) if (v := run(provider, case)).bad), None)
        if bad is None:  # one that stops after many calls: what `check` does at the end
            bad = next((v for v in check(null.provider(op), [name]) if v.bad), None)
        assert bad is not None, f"{null.name} passes"
        assert bad.kind in null.kinds, f"{null.name} is called {bad.kind}: {bad.reason}"
    assert fitting >= (len(NULLS) - 9 if op.writes else 15)


def test_fresh_calls_hold_what_no_sample_does():
    for op in map(REGISTRY.__getitem__, NAMES):
        drawn = list(fresh(op))
        assert len(drawn) >= 2, op.name
        assert [str(c) for c in drawn] == [str(c) for c in fresh(op)]
        assert len({c.label for c in drawn}) == len(drawn)


def test_every_null_kernel_is_tried_on_some_op():
    assert [n.name for n in NULLS.values() if not any(n.fits(REGISTRY[name]) for name in NAMES)] == []
