"""Experts on the portable provider: the same bits whoever shares a batch or an expert, on every instruction set and number of threads."""

import numpy as np
import pytest

from tests.providers.portable.instances import ALL, NAMES, blocks, portable, run
from vtcore import ops
from vtcore.dispatch import Dispatcher
from vtcore.quant.blocks import Blocks
from vtcore.tensor import of

COUNT, INNER, WIDTH = 6, 64, 96


def dense(rng, dtype):
    return [(rng.standard_normal(s) * 0.1).astype(dtype) for s in ((COUNT, INNER, WIDTH), (COUNT, INNER, WIDTH), (COUNT, WIDTH, INNER))]


def quantised(name):
    def stack(n, k, seed):
        whole = blocks(name, COUNT * n, k, seed)
        return Blocks(whole.data.reshape(COUNT, n, -1), whole.dtype)

    return [stack(INNER, WIDTH, 0), stack(INNER, WIDTH, 1), stack(WIDTH, INNER, 2)]


def call(rng, tokens, k=3):
    x, weights = rng.standard_normal((tokens, WIDTH)).astype(np.float32), rng.uniform(0, 1, (tokens, k)).astype(np.float32)
    return {"x": x, "weights": weights, "ids": rng.integers(0, COUNT, (tokens, k)).astype(np.int32)}


KINDS = {
    "float32": (ops.experts, lambda: dense(np.random.default_rng(5), np.float32)),
    "float16": (ops.experts, lambda: dense(np.random.default_rng(5), np.float16)),
    "Q4_1": (ops.experts, lambda: quantised("Q4_1")),
    "Q8_0 fast": (ops.experts_q8, lambda: quantised("Q8_0")),
    "MXFP4 fast": (ops.experts_q8, lambda: quantised("MXFP4")),
}


@pytest.mark.parametrize("isa", ALL)
@pytest.mark.parametrize("kind", KINDS)
def test_a_row_does_not_depend_on_its_neighbours(isa, kind):
    (op, make), given = KINDS[kind], call(np.random.default_rng(0), 37)
    mats = dict(zip(("gate", "up", "down"), make(), strict=True))
    whole = run(portable(isa), op, **given, **mats)
    for some in (slice(0, 1), slice(11, 12), slice(3, 20)):
        np.testing.assert_array_equal(run(portable(isa), op, **{n: v[some] for n, v in given.items()}, **mats), whole[some])
    np.testing.assert_array_equal(run(portable(isa, 1), op, **given, **mats), whole)


def test_one_by_one_is_as_together():
    given, mats = call(np.random.default_rng(1), 9), dense(np.random.default_rng(2), np.float32)
    with Dispatcher([portable()], strict=True):
        tensors = [of(v) for v in given.values()]
        together = ops.experts(*tensors, *map(of, mats)).numpy()
        apart = [tuple(of(np.ascontiguousarray(m)) for m in stack) for stack in mats]
        for _ in range(2):
            np.testing.assert_array_equal(ops.experts(*tensors, *apart).numpy(), together)


def test_an_expert_alone_is_a_linear():
    """The order of additions is that of linear: the same bits."""
    given, (_, up, down) = call(np.random.default_rng(3), 7, 1), dense(np.random.default_rng(4), np.float32)
    given["weights"][...], given["ids"][...] = 1, 2
    p = portable()
    inner = run(p, ops.relu_squared, x=run(p, ops.linear, x=given["x"], weight=up[2]))
    want = run(p, ops.linear, x=inner, weight=down[2])
    np.testing.assert_array_equal(run(p, ops.experts, **given, gate=None, up=up, down=down, act="relu2"), want)


def test_prepared_experts_are_repacked_once():
    given, mats = call(np.random.default_rng(1), 2), [of(m) for m in dense(np.random.default_rng(2), np.float32)]
    for m in mats:
        portable().prepare(ops.experts, m)
    forms = [dict(m.storage.forms) for m in mats]
    with Dispatcher([portable()], strict=True):
        ops.experts(*map(of, given.values()), *mats)
    assert [dict(m.storage.forms) for m in mats] == forms
    assert all(forms)


def test_without_preparation_only_experts_that_are_asked_for_are_repacked():
    given, mats = call(np.random.default_rng(1), 2, 2), dense(np.random.default_rng(2), np.float32)
    given["ids"][...] = [[4, 1], [1, 4]]
    apart = [tuple(of(np.ascontiguousarray(m)) for m in stack) for stack in mats]
    with Dispatcher([portable()], strict=True):
        got = ops.experts(*map(of, given.values()), *apart).numpy()
    assert [[bool(m.storage.forms) for m in stack] for stack in apart] == [[e in (1, 4) for e in range(COUNT)]] * 3
    np.testing.assert_array_equal(got, run(portable(), ops.experts, **given, **dict(zip(("gate", "up", "down"), mats, strict=True))))


@pytest.mark.parametrize("isa", NAMES)
def test_numbers_that_no_expert_has_harm_nothing(isa):
    given, mats = call(np.random.default_rng(1), 4), dense(np.random.default_rng(2), np.float32)
    near = given | {"ids": np.clip(np.array([[-5, 0, 99]] * 4, np.int32), 0, COUNT - 1)}
    given["ids"] = np.array([[-5, 0, 99]] * 4, np.int32)
    mats = dict(zip(("gate", "up", "down"), mats, strict=True))
    np.testing.assert_array_equal(run(portable(isa), ops.experts, **given, **mats), run(portable(isa), ops.experts, **near, **mats))


def test_experts_of_several_types_are_declined():
    given, mats = call(np.random.default_rng(1), 2), dense(np.random.default_rng(2), np.float32)
    mixed = (of(mats[0][0].copy()), *(of(m.astype(np.float16)) for m in mats[0][1:]))
    dispatcher = Dispatcher([portable()])
    with dispatcher:
        ops.experts(*map(of, given.values()), mixed, of(mats[1]), of(mats[2]))
    assert "one type for all" in next(iter(dispatcher.declines)).reason
