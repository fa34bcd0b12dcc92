"""What is used of nvmath-python is there, with the names and sizes that are relied upon. Neither its library nor a device is needed."""

import inspect

import numpy as np
import pytest
from nvmath.bindings import cublas, cublasLt

from tests.providers.cuda.fake import FakeDriver
from tests.providers.cuda.fake_cublas import OF_PRODUCT, OF_WISH, FakeCublasLt
from vtcore.providers.cuda import cublaslt as used

FAKE = FakeCublasLt(FakeDriver())
FUNCTIONS = [name for name in used.CALLS if not name.endswith("_dtype")]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_stand_in_has_the_bindings_parameters(name):
    assert list(inspect.signature(getattr(FAKE, name)).parameters) == list(inspect.signature(getattr(cublasLt, name)).parameters)


def test_a_heuristic_s_result_is_laid_out_as_it_is_read():
    real, fake = np.dtype(cublasLt.matmul_heuristic_result_dtype), FAKE.matmul_heuristic_result_dtype
    assert real.itemsize == fake.itemsize == 96
    assert {n: real.fields[n][1] for n in real.names} == {n: fake.fields[n][1] for n in fake.names}
    assert real.fields["algo"][1] == 0  # `Plan.algorithm` relies on that


def test_numbers_are_those_of_the_enumerations():
    product, wish = cublasLt.MatmulDescAttribute, cublasLt.MatmulPreferenceAttribute
    assert used.COMPUTE_32F == cublas.ComputeType.COMPUTE_32F
    assert (used.TRANSA, used.TRANSPOSED) == (product.TRANSA, cublas.Operation.T)
    assert used.MAX_WORKSPACE == wish.MAX_WORKSPACE_BYTES
    assert [wish[f"MIN_ALIGNMENT_{m}_BYTES"] for m in "ABCD"] == list(used.ALIGNMENTS)


@pytest.mark.parametrize(
    ("attributes", "held"),
    [(OF_PRODUCT, cublasLt.get_matmul_desc_attribute_dtype), (OF_WISH, cublasLt.get_matmul_preference_attribute_dtype)],
)
def test_attributes_have_the_sizes_that_the_stand_in_insists_on(attributes, held):
    for number, (_, held_here, _) in attributes.items():
        assert np.dtype(held_here) == np.dtype(held(number))


def test_types_have_the_driver_s_numbers():
    from cuda.bindings.runtime import cudaDataType

    assert used.TYPES == {"float32": cudaDataType.CUDA_R_32F, "float16": cudaDataType.CUDA_R_16F, "bfloat16": cudaDataType.CUDA_R_16BF}
