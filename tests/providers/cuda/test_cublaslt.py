import sys
from types import SimpleNamespace

import pytest

from tests.providers.cuda.fake import FakeDriver
from tests.providers.cuda.fake_cublas import FakeCublasLt
from vtcore.errors import ProviderUnavailableError
from vtcore.providers.cuda import cublaslt


def bindings(monkeypatch, module):
    monkeypatch.setitem(sys.modules, "nvmath", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "nvmath.bindings", SimpleNamespace(cublasLt=module))


def test_what_is_missing_is_told(monkeypatch):
    library = FakeCublasLt(FakeDriver())
    bindings(monkeypatch, library)
    assert cublaslt.load() is library
    library.failing = {"get_version": 1}
    monkeypatch.setattr(cublaslt, "CALLS", ("create",))
    with pytest.raises(ProviderUnavailableError, match=r"the library isn't here \(CuBLASLtError: refused .*vtcore\[cublas\]"):
        cublaslt.load()
    monkeypatch.setattr(cublaslt, "CALLS", ("create", "matmul_ex"))
    with pytest.raises(ProviderUnavailableError, match="nvmath-python is too old, it has no matmul_ex"):
        cublaslt.load()
    monkeypatch.setitem(sys.modules, "nvmath.bindings", None)
    with pytest.raises(ProviderUnavailableError, match="nvmath-python can't be imported"):
        cublaslt.load()


@pytest.mark.parametrize(("address", "nbytes"), [(0, 256), (4096, 256), (4096 + 128, 128), (4096 + 2, 2), (4097, 1)])
def test_an_address_is_as_aligned_as_it_is(address, nbytes):
    assert cublaslt.alignment(address) == nbytes
