import gc
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import FarMemory
from vtcore import tensor
from vtcore.memory import ALIGNMENT, HOST, HostMemory
from vtcore.storage import Storage, runs


@pytest.fixture
def host():
    return HostMemory()


@pytest.mark.parametrize("nbytes", [0, 1, 255, 256, 257, 5000, 1 << 20, (1 << 20) + 1])
def test_host_buffers_are_aligned_zero_and_large_enough(host, nbytes):
    held = host.alloc(nbytes)
    assert len(held.buffer) == held.nbytes >= nbytes
    assert held.buffer.ctypes.data % ALIGNMENT == 0
    assert not held.buffer.any()
    assert host.live == host.made == held.nbytes


def test_a_released_buffer_is_used_again_for_its_size(host):
    first = host.alloc(1000)
    address = first.buffer.ctypes.data
    host.release(first)
    assert host.live == 0
    again = host.alloc(900)
    assert again.buffer.ctypes.data == address
    assert host.made == 1024


def test_a_buffer_that_is_used_again_is_zero_where_that_is_asked(host):
    held = host.alloc(300)
    held.buffer[:] = 7
    host.release(held)
    del held
    assert not host.alloc(300, zero=True).buffer.any()


def test_scratch_and_home_are_two_pools_once_a_capture_swaps_one_in(host):
    host.scratch = host.apart()
    scratch, home = host.alloc(300, scratch=True), host.alloc(300)
    host.release(scratch)
    host.release(home)
    assert [pool.nbytes for pool in (host.lasting, host.scratch, host.home)] == [512, 512, 0]


def test_a_capture_swaps_its_pool_in_for_its_own_thread_only(host):
    host.scratch = host.apart()
    with ThreadPoolExecutor(1) as other:
        held = other.submit(host.alloc, 300, scratch=True).result()
    assert held.pool is host.home
    host.scratch = None
    assert host.alloc(300, scratch=True).pool is host.home


def test_a_view_that_outlives_its_storage_is_not_overwritten():
    values = np.arange(100, dtype=np.float32)
    t = tensor.empty(HOST, (100,))
    t.numpy()[:] = values
    view = t.numpy()
    part = view[10:20]
    del t, view
    gc.collect()
    for _ in range(5):
        other = tensor.empty(HOST, (100,))
        other.numpy()[:] = -1
        assert not np.shares_memory(other.numpy(), part)
    assert part.tolist() == values[10:20].tolist()


def test_a_storage_that_nobody_looks_at_gives_its_buffer_back():
    HOST.scratch = HOST.apart()  # a pool to which nobody else gives anything back meanwhile
    try:
        t = tensor.empty(HOST, (3000,))
        t.numpy()[:] = 1
        address, live = t.address, HOST.live
        del t
        assert HOST.live < live
        assert tensor.empty(HOST, (3000,)).address == address
    finally:
        HOST.scratch = None


def far_and_storage(rows=4):
    t = tensor.zeros((rows, 8), np.int32)
    return FarMemory(), t.storage, t


def test_rows_that_nobody_wrote_are_zeros_everywhere():
    far, storage, t = far_and_storage()
    assert not storage.at(far).buffer[:128].any()
    assert not t.numpy().any()


def test_only_what_is_missing_is_copied_and_reported():
    far, storage, t = far_and_storage()
    t.numpy()[:] = np.arange(32).reshape(4, 8)
    storage.wrote(HOST, np.array([1, 2]))
    moves = []
    storage.at(far, np.array([0, 1, 3]), lambda s, a, b, n, seconds: moves.append((a.name, b.name, n)))
    assert moves == [("host", "far", 32)]  # row 1: rows 0 and 3 are zeros that nobody wrote
    storage.at(far, None, lambda s, a, b, n, seconds: moves.append((a.name, b.name, n)))
    assert moves[1:] == [("host", "far", 32)]
    storage.at(far, None, lambda *_: moves.append("again"))
    assert len(moves) == 2


def test_who_wrote_last_owns_the_rows():
    far, storage, t = far_and_storage()
    t.numpy()[:] = 1
    storage.wrote(HOST)
    held = storage.at(far)
    held.buffer[32:64].view(np.int32)[:] = 7
    storage.wrote(far, np.array([1]))
    assert storage.valid[HOST].tolist() == [True, False, True, True]
    assert t.numpy()[:, 0].tolist() == [1, 7, 1, 1]


def test_rows_go_between_two_far_memories_through_the_host():
    a, storage, t = far_and_storage()
    b = FarMemory()
    b.name = "farther"
    t.numpy()[:] = 5
    storage.wrote(HOST)
    storage.at(a).buffer[:128].view(np.int32)[:] = 9
    storage.wrote(a)
    moves = []
    assert (storage.at(b, None, lambda s, x, y, n, seconds: moves.append((x.name, y.name, n))).buffer[:128].view(np.int32) == 9).all()
    assert moves == [("far", "farther", 128)]
    assert storage.valid[HOST].all()
    assert (t.numpy() == 9).all()


def test_a_storage_that_goes_gives_back_every_copy():
    far, storage, t = far_and_storage()
    storage.at(far)
    assert far.live > 0
    del storage, t
    assert far.live == 0


@given(st.lists(st.integers(0, 30), unique=True).map(sorted))
def test_runs_cover_an_index(index):
    got = runs(np.array(index, int))
    assert [i for begin, end in got for i in range(begin, end)] == index
    assert all(b > a for (_, a), (b, _) in pairwise(got))  # none touches the next


@given(
    st.lists(
        st.tuples(st.sampled_from(["host", "far", "farther"]), st.sets(st.integers(0, 3), min_size=1), st.integers(1, 99)), max_size=12
    )
)
def test_any_order_of_writers_leaves_one_truth(writes):
    far, storage, _ = far_and_storage()
    farther = FarMemory()
    memories, truth = {"host": HOST, "far": far, "farther": farther}, np.zeros((4, 8), np.int32)
    for who, rows, value in writes:
        index = np.array(sorted(rows))
        held = storage.at(memories[who], index)
        held.buffer[:128].view(np.int32).reshape(4, 8)[index] = value
        storage.wrote(memories[who], index)
        truth[index] = value
    for memory in memories.values():
        np.testing.assert_array_equal(storage.at(memory).buffer[:128].view(np.int32).reshape(4, 8), truth)
    assert storage.rows == 4


def test_a_storage_starts_with_no_copy():
    assert Storage(100).copies == {}
