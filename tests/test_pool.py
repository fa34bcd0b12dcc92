"""What waits to be used again: found by size, counted, and dropped when it is too much."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.fakes import FarMemory
from vtcore.memory import HostMemory, rounded
from vtcore.pool import LARGE, SPARE, Lasting, Pool, Scratch

MIB = 1 << 20


@pytest.fixture
def dropped():
    return []


@pytest.fixture
def drop(dropped):
    return lambda size, buffer: dropped.append((size, buffer))


def used(pool, size):
    """A buffer as a memory takes it, and its size."""
    if (taken := pool.take(size)) is None:
        pool.took(size)
        taken = size, object()
    return taken


def test_a_small_buffer_serves_its_own_size_only(drop):
    pool = Pool(drop)
    pool.give(512, "b")
    assert pool.take(256) is None
    assert pool.take(512) == (512, "b")
    assert pool.take(512) is None


def test_a_large_buffer_serves_half_its_size_and_the_nearest_goes_first(drop):
    pool = Pool(drop)
    pool.give(8 * MIB, "large")
    pool.give(5 * MIB, "nearer")
    assert pool.take(4 * MIB) == (5 * MIB, "nearer")
    assert pool.take(4 * MIB) == (8 * MIB, "large")
    pool.give(8 * MIB, "large")
    assert pool.take(3 * MIB) is None


def test_steps_of_ever_new_lengths_leave_little_waiting(drop, dropped):
    pool, draw = Scratch(drop), random.Random(0)
    for _ in range(300):
        rows = draw.randint(1, 256)
        out = [used(pool, rounded(rows * 196_608, 8)) for _ in range(4)]  # a vocabulary of 49,152
        assert sum(size for size, _ in out) == pool.busy
        for size, buffer in out:
            pool.give(size, buffer)
    assert pool.nbytes <= pool.peak * 5 // 4
    assert pool.busy == 0
    assert dropped


def test_what_has_waited_longest_goes_first(drop, dropped):
    pool = Scratch(drop)
    for size in (12 * MIB, 3 * MIB, 30 * MIB):
        pool.give(*used(pool, size))
    assert [size for size, _ in dropped] == [12 * MIB]
    assert pool.nbytes == 33 * MIB <= 30 * MIB * 5 // 4


def test_equal_steps_make_nothing_anew(drop, dropped):
    pool = Scratch(drop)
    sizes = [rounded(n * MIB, 8) for n in (1, 3, 4, 2)]
    for size in sizes * 3:
        pool.give(*used(pool, size))
    assert pool.nbytes <= sum(sizes)
    assert not dropped


def test_what_was_kept_for_long_does_not_wait(drop, dropped):
    pool = Lasting(drop)
    pool.give(LARGE, "weights")
    assert dropped == [(LARGE, "weights")]
    for i in range(2 * SPARE // (LARGE // 2)):
        pool.give(LARGE // 2, i)
    assert pool.nbytes == SPARE
    assert len(dropped) == 1 + SPARE // (LARGE // 2)


def test_a_buffer_that_is_not_coming_back_is_out_no_more(drop):
    pool = Scratch(drop)
    size, _ = used(pool, MIB)
    pool.give(size, None)
    assert (pool.nbytes, pool.busy) == (0, 0)


def test_a_closed_pool_drops_what_waits_and_what_comes(drop, dropped):
    pool = Pool(drop)
    pool.give(256, "a")
    pool.close()
    pool.give(256, "b")
    pool.give(256, None)
    assert dropped == [(256, "a"), (256, "b")]
    assert pool.nbytes == 0


def test_threads_that_share_a_pool_never_share_a_buffer(drop):
    pool, held = Scratch(drop), set()

    def work(seed):
        draw = random.Random(seed)
        for _ in range(2000):
            size, buffer = used(pool, rounded(draw.randint(1, 3 * MIB), 8))
            assert id(buffer) not in held
            held.add(id(buffer))
            held.discard(id(buffer))
            pool.give(size, buffer)

    with ThreadPoolExecutor(4) as team:
        for done in [team.submit(work, i) for i in range(4)]:
            done.result()
    assert pool.nbytes == pool.idle
    assert pool.busy == 0


@pytest.mark.parametrize("memory", [HostMemory, FarMemory])
def test_a_memory_counts_what_is_dropped(memory):
    m = memory()
    for _ in range(3):
        for size in (20 * MIB, 30 * MIB, 40 * MIB):
            m.release(m.alloc(size, scratch=True))
            m.release(m.alloc(size))
    assert m.live == 0
    assert m.made == m.home.nbytes <= 50 * MIB
    m.trim()
    assert m.made == 0


def test_a_full_memory_drops_what_waits_and_is_asked_once_more():
    class Small(FarMemory):
        def _make(self, size, zero):
            if self.made + size > 10 * MIB:
                raise MemoryError
            return super()._make(size, zero)

    m = Small()
    m.release(m.alloc(6 * MIB, scratch=True))
    assert m.alloc(8 * MIB).nbytes == 8 * MIB
    with pytest.raises(MemoryError):
        m.alloc(8 * MIB)
