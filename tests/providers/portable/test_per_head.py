"""per_head on the portable provider: the same bits whoever shares a batch, prepared or not, and no byte beyond the arrays."""

import numpy as np
import pytest

from tests.providers.portable.instances import ALL, portable, run
from tests.providers.portable.test_bounds import at_the_edge
from vtcore import ops
from vtcore.dispatch import Dispatcher
from vtcore.tensor import of

RNG = np.random.default_rng(0)
X, WEIGHT = RNG.standard_normal((37, 3, 24)).astype(np.float32), RNG.standard_normal((3, 24, 50)).astype(np.float32)


@pytest.mark.parametrize("isa", ALL)
def test_a_row_does_not_depend_on_its_neighbours(isa):
    whole = run(portable(isa), ops.per_head, x=X, weight=WEIGHT)
    np.testing.assert_allclose(whole, np.einsum("tha,hab->thb", X.astype(np.float64), WEIGHT), rtol=1e-4, atol=1e-5)
    for some in (slice(0, 1), slice(11, 12), slice(3, 20)):
        np.testing.assert_array_equal(run(portable(isa), ops.per_head, x=X[some], weight=WEIGHT), whole[some])
    np.testing.assert_array_equal(run(portable(isa, 1), ops.per_head, x=X, weight=WEIGHT), whole)


def test_a_head_alone_is_a_linear():
    want = run(portable(), ops.linear, x=np.ascontiguousarray(X[:, 1]), weight=np.ascontiguousarray(WEIGHT[1].T))
    np.testing.assert_array_equal(run(portable(), ops.per_head, x=X, weight=WEIGHT)[:, 1], want)


def test_what_was_prepared_is_not_made_again():
    weight, x = of(WEIGHT.copy()), of(X)
    portable().prepare(ops.per_head, weight)
    forms = dict(weight.storage.forms)
    with Dispatcher([portable()], strict=True):
        got = ops.per_head(x, weight).numpy()
    assert forms
    assert dict(weight.storage.forms) == forms
    np.testing.assert_array_equal(got, run(portable(), ops.per_head, x=X, weight=WEIGHT))


def test_nothing_is_read_beyond_the_arrays():
    run(portable(threads=1), ops.per_head, x=at_the_edge(X[:3, :2, :7].copy()), weight=at_the_edge(WEIGHT[:2, :7, :5].copy()))
