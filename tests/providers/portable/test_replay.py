"""Recorded launches: what may run at the same time, and that a replay does what the eager run did."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.providers.portable.instances import blocks, portable
from vtcore import ops
from vtcore.capture import Capture
from vtcore.dispatch import Dispatcher
from vtcore.providers.portable.jit import Native
from vtcore.providers.portable.launch import Bound
from vtcore.providers.portable.replay import _Spans, phases
from vtcore.tensor import of

SPANS = st.tuples(st.integers(0, 60), st.integers(1, 12)).map(lambda s: (s[0], s[0] + s[1]))
SOME = st.lists(SPANS, max_size=3).map(tuple)
NATIVE = Native("n", 0, (), (), (), ())
LAUNCHES = st.lists(st.builds(Bound, st.just(NATIVE), st.just(()), SOME, SOME, st.booleans()), max_size=25)


def touched(spans):
    return {address for begin, end in spans for address in range(begin, end)}


@given(st.lists(SPANS, max_size=20), SPANS)
def test_a_set_of_spans_is_a_set_of_addresses(spans, asked):
    held = _Spans()
    held.update(spans)
    assert held.touches(asked) == bool(touched(spans) & touched([asked]))
    borders = [a for pair in zip(held._begins, held._ends, strict=True) for a in pair]
    assert borders == sorted(set(borders))  # no two of them touch


@given(LAUNCHES)
def test_launches_of_a_phase_do_not_conflict(launches):
    lengths = list(phases(launches))
    assert sum(lengths) == len(launches)
    assert all(lengths)
    first = 0
    for length in lengths:
        together, first = launches[first : first + length], first + length
        assert length == 1 or all(launch.shared for launch in together)
        for a, b in combinations(together, 2):
            assert not touched(a.writes) & (touched(b.reads) | touched(b.writes))
            assert not touched(b.writes) & touched(a.reads)


@given(LAUNCHES)
def test_a_phase_ends_only_where_it_must(launches):
    first = 0
    for length in phases(launches):
        together, after = launches[first : first + length], launches[first + length : first + length + 1]
        if together[0].shared and after and after[0].shared:
            reads, writes = (touched(s for launch in together for s in getattr(launch, kind)) for kind in ("reads", "writes"))
            assert writes & (touched(after[0].reads) | touched(after[0].writes)) or reads & touched(after[0].writes)
        first += length


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("tokens", [1, 5, 16])
def test_a_replay_gives_the_bits_of_the_eager_run(threads, tokens):
    """Sharing one rounding of x, temporaries that are used again, tasks shared and alone, and other numbers in the input."""
    rng, provider = np.random.default_rng(tokens), portable(threads=threads)
    weights = [of(blocks("Q8_0", rows, 256)) for rows in (256, 96, 256)]
    norm = of(rng.standard_normal(256).astype(np.float32))
    dispatcher = Dispatcher([provider], strict=True)

    def step(x):
        for _ in range(3):
            y = ops.rms_norm(x, norm, 1e-6)
            q, k, v = (ops.linear_q8(y, w) for w in weights)
            x = ops.add(x, ops.silu_mul(q, v))
        return ops.argmax(x), ops.linear(k, of_exact), x

    of_exact = of(rng.standard_normal((40, 96)).astype(np.float32))
    inputs = [rng.standard_normal((tokens, 256)).astype(np.float32) for _ in range(3)]
    held = of(inputs[0].copy())
    with dispatcher:
        with Capture(dispatcher) as capture:
            recorded = step(held)
        for numbers in inputs:
            held.numpy()[...] = numbers
            capture.replay()
            for eager, replayed in zip(step(of(numbers)), recorded, strict=True):
                assert eager.numpy().tobytes() == replayed.numpy().tobytes()


def test_what_an_eager_step_rounded_is_rounded_again_in_a_recorded_one():
    rng, provider = np.random.default_rng(0), portable(threads=1)
    weight, dispatcher = of(blocks("Q8_0", 32, 64)), Dispatcher([provider], strict=True)
    numbers = [rng.standard_normal((1, 64)).astype(np.float32) for _ in range(2)]
    with dispatcher:
        x = ops.add(of(numbers[0]), of(np.zeros((1, 64), np.float32)))
        ops.linear_q8(x, weight)
        with Capture(dispatcher) as capture:
            out = ops.linear_q8(x, weight)
        x.numpy()[...] = numbers[1]
        capture.replay()
        assert out.numpy().tobytes() == ops.linear_q8(of(numbers[1]), weight).numpy().tobytes()
