"""A page's bytes, out of whatever memory they are true in, and back."""

import numpy as np

from tests.fakes import FarMemory, far_view
from vtcore.kvcache.cache import Cache, Paged, State
from vtcore.kvcache.offload.rows import Rows
from vtcore.memory import HOST

PAGED, STATE = Paged({"k": (2, 3), "v": (2, 5)}), State({"s": (7,)})


def cache(**options) -> Cache:
    return Cache({(0, "a"): PAGED, (1, "a"): PAGED, (2, "b"): STATE}, 6, 4, np.float16, **options)


def tensors(c: Cache, group: str):
    return [t for key, spec in c.specs.items() if spec.group == group for t in c.arrays[key].values()]


def fill(c: Cache, memory=HOST) -> None:
    for seed, tensor in enumerate(t for arrays in c.arrays.values() for t in arrays.values()):
        buffer = tensor.storage.at(memory).buffer
        buffer[: tensor.storage.nbytes] = np.random.default_rng(seed).integers(0, 100, tensor.storage.nbytes)
        tensor.storage.wrote(memory)


def test_a_page_is_all_rows_of_its_group_and_comes_back_into_another():
    c = cache()
    fill(c)
    rows = Rows(c)
    assert rows.nbytes(PAGED.group) == 2 * PAGED.nbytes(4, np.float16)
    for group in (PAGED.group, STATE.group):
        before = [t.numpy().copy() for t in tensors(c, group)]
        data = rows.read(group, 2)
        assert data.nbytes == rows.nbytes(group)
        rows.write(group, 5, data)
        for tensor, was in zip(tensors(c, group), before, strict=True):
            assert np.array_equal(tensor.numpy()[5], was[2])
            assert np.array_equal(tensor.numpy()[:5], was[:5])


def test_what_nobody_wrote_is_zeros():
    assert not Rows(cache()).read(PAGED.group, 3).any()


def test_a_page_that_lies_elsewhere_is_fetched_from_there_and_put_there():
    c, far = cache(layout=lambda name, shape: (0, 2, 1, 3)), FarMemory()
    fill(c, far)
    rows, before = Rows(c), [far_view(t, far).copy() for t in tensors(c, PAGED.group)]
    rows.write(PAGED.group, 1, rows.read(PAGED.group, 4))
    for tensor, was in zip(tensors(c, PAGED.group), before, strict=True):
        assert HOST not in tensor.storage.copies
        assert np.array_equal(far_view(tensor, far)[1], was[4])
        assert np.array_equal(tensor.numpy()[1], was[4])
        assert np.array_equal(tensor.numpy()[2:], was[2:])


def test_the_true_one_of_two_copies_is_read_and_both_are_written():
    c, far = cache(), FarMemory()
    fill(c)
    [first, *_] = tensors(c, PAGED.group)
    first.storage.at(far)
    first.storage.copies[far].buffer[:] = 9
    first.storage.wrote(far, np.array([2]))
    rows = Rows(c)
    size = first.storage.nbytes // first.storage.rows
    assert set(rows.read(PAGED.group, 2)[:size]) == {9}
    rows.write(PAGED.group, 3, np.full(rows.nbytes(PAGED.group), 5, np.uint8))
    for memory in (HOST, far):
        assert set(first.storage.copies[memory].buffer[3 * size : 4 * size]) == {5}
        assert first.storage.valid[memory][3]
