import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from vtcore import tensor
from vtcore.memory import HOST
from vtcore.quant.blocks import FORMATS, Blocks
from vtcore.tensor import Inputs, Tensor

SHAPES = hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5)


def counting(shape):
    return np.arange(np.prod(shape), dtype=np.int32).reshape(shape)


@st.composite
def views(draw):
    """An array, a Tensor of it, and both after some slices, transposes and reshapes."""
    shape = draw(SHAPES)
    array = counting(shape)
    view = tensor.of(array)
    for _ in range(draw(st.integers(0, 4))):
        step = draw(st.sampled_from(["slice", "transpose", "reshape"]))
        if step == "slice":
            key = draw(hnp.basic_indices(array.shape, allow_newaxis=True))
            array, view = array[(*key, ...) if isinstance(key, tuple) and Ellipsis not in key else key], view[key]
            array = np.asarray(array)
        elif step == "transpose":
            axes = draw(st.permutations(range(array.ndim)))
            array, view = array.transpose(axes), view.transpose(*axes)
        elif array.flags.c_contiguous:
            sides = draw(st.permutations([n for n in array.shape if n != 1] + [1]))
            array, view = array.reshape(sides), view.reshape(*sides)
    return array, view


@given(views())
def test_views_are_numpy_s(pair):
    array, view = pair
    assert (view.shape, view.ndim, view.size, view.nbytes) == (array.shape, array.ndim, array.size, array.nbytes)
    np.testing.assert_array_equal(view.numpy(), array)
    if array.size:
        assert view.address == view.numpy().__array_interface__["data"][0]


@given(views(), st.data())
def test_a_reshape_is_a_view_or_an_error(pair, data):
    array, view = pair
    wanted = data.draw(st.sampled_from([(-1,), (*array.shape, 1), (1, *array.shape), (-1, 2), array.shape[::-1]]))
    try:
        want = array.reshape(wanted, copy=False)
    except ValueError:
        if array.size:
            with pytest.raises(ValueError):
                view.reshape(*wanted)
    else:
        got = view.reshape(wanted)
        assert got.storage is view.storage
        np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize("wanted", [(7,), (-1, 4), (-1, 0), (2, 3, 2)])
def test_a_reshape_to_another_size_is_refused(wanted):
    with pytest.raises(ValueError, match=r"a tensor of shape \[2, 3\] can't be seen as"):
        tensor.of(counting((2, 3))).reshape(*wanted)


@pytest.mark.parametrize("key", [np.array([0, 1]), [0, 1], (0, np.array([1])), np.array([True, False]), "a", 1.0])
def test_what_is_no_view_is_an_op_s_business(key):
    with pytest.raises(TypeError, match=r"a tensor is viewed by numbers, slices, None and \.\.\."):
        tensor.of(counting((2, 3)))[key]


def test_an_index_outside_is_refused():
    with pytest.raises(IndexError):
        tensor.of(counting((2, 3)))[2]


def test_numpy_integers_index():
    assert tensor.of(counting((4, 3)))[np.int64(2), np.int32(1)].numpy() == 7


@pytest.mark.parametrize(
    "use", [bool, len, iter, int, float, np.asarray, lambda t: t + 1, lambda t: t == t, lambda t: -t, lambda t: 2 * t, lambda t: t @ t]
)
def test_a_tensor_has_no_values_and_no_arithmetic(use):
    with pytest.raises(TypeError):
        use(tensor.of(counting((2,))))


def test_of_copies_nothing_that_is_contiguous():
    array = counting((2, 3))
    assert np.shares_memory(tensor.of(array).numpy(), array)
    np.testing.assert_array_equal(tensor.of(array.T).numpy(), array.T)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.bool_, np.int64])
def test_any_dtype_comes_back(dtype):
    array = counting((2, 3)).astype(dtype)
    got = tensor.of(array)[:, 1:].numpy()
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, array[:, 1:])


def test_an_array_of_no_axes_and_one_of_no_elements():
    assert tensor.of(np.array(7, np.int32)).numpy() == 7
    assert tensor.of(np.zeros((0, 3), np.float32)).numpy().shape == (0, 3)


@pytest.mark.parametrize("name", ["Q8_0", "Q4_K"])
def test_quantised_rows_slice_and_keep_their_columns(name):
    fmt = FORMATS[name]
    blocks = Blocks(np.random.default_rng(0).integers(0, 256, (6, 2 * fmt.nbytes), np.uint8), fmt)
    t = tensor.of(blocks)
    assert (t.shape, t.dtype, t.nbytes) == ((6, 2 * fmt.block), fmt, blocks.nbytes)
    for got, want in ((t, blocks), (t[2:5], blocks[2:5]), (t[::2], blocks[::2]), (t.reshape(2, 3, -1)[1], blocks[3:])):
        np.testing.assert_array_equal(got.numpy().data, want.data)
    np.testing.assert_array_equal(t[:, fmt.block :].numpy().data, blocks.data[:, fmt.nbytes :])


@pytest.mark.parametrize("key", [np.s_[:, 1:], np.s_[:, :31], np.s_[:, 16:48]])
def test_a_block_can_t_be_cut(key):
    t = tensor.of(Blocks(np.zeros((2, 68), np.uint8), FORMATS["Q8_0"]))
    with pytest.raises(ValueError, match="Q8_0 is read in blocks of 32"):
        t[key]


def test_zeros_exist_nowhere_until_they_are_asked_for():
    t = tensor.zeros((3, 4), np.float16)
    assert not t.storage.copies
    assert t.storage.rows == 3
    assert t.numpy().tolist() == [[0] * 4] * 3


def test_empty_has_room_for_its_values():
    t = tensor.empty(HOST, (3, 5), np.int32)
    t.numpy()[...] = counting((3, 5))
    assert t[1:, 2].numpy().tolist() == [7, 12]


def test_bare_and_held_go_into_lists_and_tuples():
    a = counting((2,))
    t = tensor.of(a)
    got = tensor.bare([t, (t, 3)])
    assert [type(got), type(got[1]), got[1][1]] == [list, tuple, 3]
    assert np.shares_memory(got[0], a)
    back = tensor.held((a, 3, None))
    assert isinstance(back[0], Tensor)
    assert back[1:] == (3, None)


class TestInputs:
    def test_arrays_are_views_of_one_storage_at_addresses_that_stay(self):
        inputs = Inputs({"tokens": np.array([1, 2, 3]), "table": counting((2, 2)), "none": np.zeros((0, 4), int)})
        assert len({id(t.storage) for t in inputs.tensors.values()}) == 1
        addresses = {n: t.address for n, t in inputs.tensors.items()}
        assert all(a % 16 == inputs.whole.address % 16 for a in addresses.values())
        inputs.update({"tokens": np.array([7, 8, 9]), "table": counting((2, 2)) + 1, "none": np.zeros((0, 4), int)})
        assert inputs.tensors["tokens"].numpy().tolist() == [7, 8, 9]
        assert inputs.tensors["table"].numpy().tolist() == [[1, 2], [3, 4]]
        assert {n: t.address for n, t in inputs.tensors.items()} == addresses
        assert inputs.tensors["tokens"].dtype == np.int32

    def test_another_shape_is_refused(self):
        inputs = Inputs({"tokens": np.array([1, 2, 3])})
        with pytest.raises(ValueError, match=r"input 'tokens' has shape \[2\]; this step was made for \[3\]"):
            inputs.update({"tokens": np.array([1, 2])})
