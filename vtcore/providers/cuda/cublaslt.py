"""cuBLASLt through nvmath-python's low-level bindings, in the context that the driver holds. Never run on a real device yet."""

from __future__ import annotations

import ctypes
from contextlib import ExitStack, suppress
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from vtcore.errors import LibraryError, ProviderUnavailableError
from vtcore.memory import Held
from vtcore.providers.cuda.device import CUDA
from vtcore.providers.cuda.driver import Driver
from vtcore.tensor import Tensor

TYPES = {"float32": 0, "float16": 2, "bfloat16": 14}  # CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF
COMPUTE_32F = 68  # CUBLAS_COMPUTE_32F: sums in float32, and products of float32 too, not TF32
TRANSA, TRANSPOSED = 3, 1  # CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T
MAX_WORKSPACE = 1  # CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
ALIGNMENTS = (5, 6, 7, 8)  # CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, of B, of C, of D
WIDEST = 256  # bytes: what the library takes for granted where nothing is said
WORKSPACE = 32 << 20  # bytes for partial sums: what NVIDIA advises for Hopper, and enough for what came before
PLANS = 1024  # shapes whose algorithm is remembered
INSTALL = "pip install 'vtcore[cublas]'"
CALLS = (
    *("create", "destroy", "get_version", "matmul", "matmul_algo_get_heuristic", "matmul_heuristic_result_dtype"),
    *("matmul_desc_create", "matmul_desc_destroy", "matmul_desc_set_attribute", "matrix_layout_create", "matrix_layout_destroy"),
    *("matmul_preference_create", "matmul_preference_destroy", "matmul_preference_set_attribute"),
)


def load() -> Any:
    """The bindings, with the library behind them. Raises ProviderUnavailableError where either isn't here, or the bindings are too old."""
    try:
        from nvmath.bindings import cublasLt as module
    except Exception as missing:  # a package that is there in part may raise anything
        raise ProviderUnavailableError(f"cuBLASLt: nvmath-python can't be imported ({missing}): {INSTALL}") from missing
    if lacking := [name for name in CALLS if not hasattr(module, name)]:
        raise ProviderUnavailableError(f"cuBLASLt: nvmath-python is too old, it has no {', '.join(lacking)}: {INSTALL}")
    try:
        module.get_version()
    except Exception as missing:  # which one, differs by what finds libraries
        why = " ".join(str(missing).split())
        raise ProviderUnavailableError(f"cuBLASLt: the library isn't here ({type(missing).__name__}: {why:.120}): {INSTALL}") from missing
    return module


class Shape(NamedTuple):
    """y [rows, outputs] = x [rows, terms] weight [outputs, terms]^T, y in float32. Strides count elements, alignments bytes."""

    rows: int
    outputs: int
    terms: int
    dtype: str  # of x and of the weight
    x_stride: int
    weight_stride: int
    x_alignment: int
    weight_alignment: int

    def __str__(self) -> str:
        return f"x [{self.rows} {self.terms}] with weight [{self.outputs} {self.terms}] in {self.dtype}"


class Library:
    """`library("create")` calls a function of the bindings. Raises LibraryError for its errors."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def __call__(self, name: str, *args: Any, of: Shape | None = None) -> Any:
        try:
            return getattr(self.module, name)(*args)
        except Exception as wrong:  # its own class for a status; others where a library is found to be missing
            why = str(wrong).partition(". You can set")[0]  # which goes on with how to get a log
            raise LibraryError(f"cuBLASLt: {name}{f' for {of}' if of else ''} failed: {why}") from wrong


class Plan:
    """What the library needs to know of a shape, and the algorithm that it chose.

    Its matrices lie in columns. A row-major matrix is its transpose there, with the stride between rows as the leading dimension: so
    y^T [outputs, rows] = (weight^T [terms, outputs])^T x^T [terms, rows] is what is asked for."""

    def __init__(self, library: Library, handle: int, shape: Shape) -> None:
        self.shape, self._library, self._objects = shape, library, ExitStack()
        code, s = TYPES[shape.dtype], shape
        self.product = self._made("matmul_desc", COMPUTE_32F, TYPES["float32"])
        self._set("matmul_desc", self.product, TRANSA, ctypes.c_int32(TRANSPOSED))
        self.weight = self._made("matrix_layout", code, s.terms, s.outputs, s.weight_stride)
        self.x = self._made("matrix_layout", code, s.terms, s.rows, s.x_stride)
        self.y = self._made("matrix_layout", TYPES["float32"], s.outputs, s.rows, s.outputs)
        self._algorithm = self._chosen(handle)

    def _chosen(self, handle: int) -> Any:
        wish = self._made("matmul_preference")
        self._set("matmul_preference", wish, MAX_WORKSPACE, ctypes.c_uint64(WORKSPACE))
        aligned = self.shape.weight_alignment, self.shape.x_alignment, WIDEST, WIDEST
        for attribute, nbytes in zip(ALIGNMENTS, aligned, strict=True):
            self._set("matmul_preference", wish, attribute, ctypes.c_uint32(nbytes))
        found, count = np.zeros(1, self._library.module.matmul_heuristic_result_dtype), ctypes.c_int32(0)
        layouts = self.weight, self.x, self.y, self.y
        asked = handle, self.product, *layouts, wish, 1, found.ctypes.data, ctypes.addressof(count)
        self._library("matmul_algo_get_heuristic", *asked, of=self.shape)
        if not count.value or found["state"][0]:
            raise LibraryError(f"cuBLASLt: there is no algorithm for {self.shape} (status {found['state'][0]})")
        return found

    @property
    def algorithm(self) -> int:
        """Where it stands: a result of the heuristic begins with it."""
        return int(self._algorithm.ctypes.data)

    def _made(self, kind: str, *args: int) -> int:
        made: int = self._library(f"{kind}_create", *args, of=self.shape)
        self._objects.callback(self._library, f"{kind}_destroy", made)
        return made

    def _set(self, kind: str, made: int, attribute: int, value: Any) -> None:
        self._library(f"{kind}_set_attribute", made, attribute, ctypes.addressof(value), ctypes.sizeof(value), of=self.shape)

    def __del__(self) -> None:
        with suppress(LibraryError):  # they are the host's: no device is asked
            self._objects.close()


class Bound(NamedTuple):
    """A plan with addresses: what goes on the stream, once or as a part of a graph."""

    on: CublasLt
    plan: Plan
    x: int
    weight: int
    y: int

    def enqueue(self, driver: Driver, stream: Any) -> None:
        """As all that can be put on the stream. LibraryError, with the shapes, for a status that is no success."""
        driver.enter()
        on, plan = self.on, self.plan
        factors = ctypes.addressof(on.one), self.weight, plan.weight, self.x, plan.x, ctypes.addressof(on.zero)
        room = plan.algorithm, on.workspace.buffer, WORKSPACE
        on.library("matmul", on.handle, plan.product, *factors, self.y, plan.y, self.y, plan.y, *room, int(stream), of=plan.shape)


class CublasLt:
    """The library on one device: its handle, its workspace, and a plan for each shape. Raises LibraryError, or OutOfMemoryError."""

    def __init__(self, device: CUDA, module: Any) -> None:
        self.device, self.library = device, Library(module)
        device.driver.enter()
        self.handle: int = self.library("create")
        device.made_here.callback(self.library, "destroy", self.handle)
        self.workspace: Held = device.alloc(WORKSPACE)
        device.capacity -= WORKSPACE  # what a model may have
        self.one, self.zero = ctypes.c_float(1), ctypes.c_float(0)
        self.plan = lru_cache(PLANS)(self._planned)

    @property
    def version(self) -> str:
        """The library's."""
        number: int = self.library.module.get_version()
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"

    def multiply(self, x: Tensor, weight: Tensor, y: Tensor) -> None:
        """y [..., N] = x [..., K] weight [N, K]^T. x's rows follow each other at one stride, of K or more; y is fresh and contiguous."""
        (outputs, terms), rows = weight.shape, y.size // y.shape[-1]
        at = [self._address(t) for t in (x, weight, y)]
        strides = max(terms, x.strides[-2]), max(terms, weight.strides[0])
        plan = self.plan(Shape(rows, outputs, terms, str(weight.dtype), *strides, *(alignment(a) for a in at[:2])))
        self.device.put(Bound(self, plan, *at), (x, weight, y))

    def _planned(self, shape: Shape) -> Plan:
        self.device.driver.enter()
        return Plan(self.library, self.handle, shape)

    def _address(self, tensor: Tensor) -> int:
        begin: int = tensor.storage.copies[self.device].buffer
        return begin + tensor.offset * tensor.nbytes // max(1, tensor.size)

    def close(self) -> None:
        """Give the plans back; the handle goes with the device."""
        self.plan.cache_clear()


def alignment(address: int) -> int:
    """The largest power of two, up to what the library takes for granted, that divides an address."""
    return min(WIDEST, address & -address) or WIDEST
