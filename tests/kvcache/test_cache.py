"""Cache arrays: what they cost, where they lie, and how a page is found."""

import ml_dtypes
import numpy as np
import pytest

from vtcore.errors import ArgumentError
from vtcore.kvcache.cache import Cache, Group, Paged, State, page_bytes
from vtcore.ops import write_pages
from vtcore.tensor import of

SPECS = {
    (0, "kv"): Paged({"k": (2, 8), "v": (2, 4)}),
    (1, "kv"): Paged({"k": (2, 8), "v": (2, 8)}, window=16),
    (2, "kv"): Paged({"k": (2, 8), "v": (2, 8)}),
    (2, "state"): State({"conv": (6, 3)}),
}
LAYOUTS = {"k": (0, 2, 3, 1), "v": (0, 2, 1, 3)}  # [P Hk D S] and [P Hk S D]


def test_what_is_kept_alike_shares_a_group():
    cache = Cache(SPECS, 4, 16)
    assert set(cache.groups) == {"text/window=0/every=1", "text/window=16/every=1", "state"}
    assert cache.arrays[0, "kv"]["v"].shape == (4, 16, 2, 4)
    assert cache.arrays[2, "state"]["conv"].shape == (4, 6, 3)


def test_bytes_from_specs_alone():
    full, near = 16 * 4 * (16 + 8 + 16 + 16), 16 * 4 * (16 + 16)
    assert page_bytes(SPECS, 16) == {"text/window=0/every=1": full, "text/window=16/every=1": near, "state": 4 * 18}
    assert page_bytes(SPECS, 16, np.float16)["text/window=0/every=1"] == full // 2
    assert page_bytes(SPECS, 16, np.float16)["state"] == 4 * 18  # states stay float32
    cache = Cache(SPECS, {"text/window=0/every=1": 5, "text/window=16/every=1": 3, "state": 2}, 16)
    assert cache.nbytes == 5 * full + 3 * near + 2 * 4 * 18
    assert cache.nbytes == sum(t.nbytes for arrays in cache.arrays.values() for t in arrays.values())


def test_nothing_is_allocated_before_it_is_used():
    cache = Cache({(0, "kv"): Paged({"k": (1, 1 << 20)})}, 1 << 20, 16)  # 64 TiB
    assert cache.arrays[0, "kv"]["k"].storage.copies == {}


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_a_layout_changes_strides_and_no_value(dtype):
    rng = np.random.default_rng(0)
    plain, lying = Cache(SPECS, 4, 4, dtype), Cache(SPECS, 4, 4, dtype, lambda name, shape: LAYOUTS.get(name) if len(shape) == 4 else None)
    values, slots = rng.standard_normal((3, 2, 8)).astype(np.float32), np.array([5, -1, 14], np.int32)
    for cache in (plain, lying):
        write_pages(cache.arrays[0, "kv"]["k"].numpy(), values, slots)
    k, same = lying.arrays[0, "kv"]["k"], plain.arrays[0, "kv"]["k"]
    assert k.shape == same.shape == (4, 4, 2, 8)
    assert k.strides == (4 * 2 * 8, 1, 8 * 4, 4)
    np.testing.assert_array_equal(k.numpy(), same.numpy())
    np.testing.assert_array_equal(k.numpy()[1, 1], values[0].astype(dtype))
    assert k.storage.rows == 4  # pages stay the first axis: they move one by one


def test_a_view_is_one_layer_s():
    cache = Cache(SPECS, 4, 4)
    group = Group(of(np.ones((1, 1), np.int32)), of(np.zeros(1, np.int32)))
    view = cache.view(1, "kv", {"text/window=16/every=1": group})
    assert view.group is group
    assert view["k"] is cache.arrays[1, "kv"]["k"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"page": 0}, "a page of 0 entries"),
        ({"pages": 1}, "has 1 pages; it must have at least 2"),
        ({"dtype": np.int8}, "a cache of int8 is not possible; choose float32, float16 or bfloat16"),
        ({"layout": lambda name, shape: (1, 0, 2, 3)}, "must name each axis once, and begin with 0"),
        ({"layout": lambda name, shape: (0, 1, 2, 2)}, "must name each axis once"),
    ],
)
def test_what_is_refused(options, words):
    with pytest.raises(ArgumentError) as e:
        Cache(SPECS, **{"pages": 4, "page": 4} | options)
    assert words in str(e.value)
