"""A stand-in for nvmath.bindings.cublasLt: the documented semantics, matrices in columns, with NumPy over the stand-in driver's memory.

It refuses more than the library does: wrong values and sizes of attributes, addresses outside of what was allocated or less aligned than
was said, layouts that don't fit together. Its parameters have the names that the bindings give them."""

import ctypes
from functools import partial
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from tests.providers.cuda.fake import STREAM, FakeDriver
from vtcore.providers.cuda import products
from vtcore.providers.cuda.device import CUDA
from vtcore.providers.cuda.driver import Driver

NAMES = {1: "NOT_INITIALIZED", 3: "ALLOC_FAILED", 7: "INVALID_VALUE", 8: "ARCH_MISMATCH", 13: "EXECUTION_FAILED", 15: "NOT_SUPPORTED"}
TYPES = {0: np.dtype(np.float32), 2: np.dtype(np.float16), 14: np.dtype(ml_dtypes.bfloat16)}
# of each attribute: how it is named here, how it is held, what it may be (None: any)
OF_PRODUCT = {3: ("transa", ctypes.c_int32, (0, 1)), 4: ("transb", ctypes.c_int32, (0, 1))}
OF_WISH = {1: ("workspace", ctypes.c_uint64, None)} | {
    n: (f"align_{m}", ctypes.c_uint32, [1 << i for i in range(9)]) for n, m in zip((5, 6, 7, 8), "abcd", strict=True)
}
NEEDED = 1 << 20  # bytes of the workspace that the one algorithm takes


class CuBLASLtError(Exception):
    def __init__(self, status, why=""):
        super().__init__(f"{why or 'refused'} (CUBLAS_STATUS_{NAMES[status]}). You can set CUBLASLT_LOG_LEVEL=5 to learn more.")


class FakeCublasLt:
    matmul_heuristic_result_dtype = np.dtype(
        [("algo", "<u8", (8,)), ("workspace_size", "<u8"), ("state", "<i4"), ("waves_count", "<f4"), ("reserved", "<i4", (4,))]
    )

    def __init__(self, driver):
        self.driver, self.objects, self.algorithms, self.asked, self.multiplied = driver, {}, [], 0, 0
        self.failing = {}  # a function's name -> the status that it gives
        self.state, self.found = 0, 1  # of the heuristic's result, and how many there are
        self.captures = True

    def __getattribute__(self, name):
        failing = object.__getattribute__(self, "__dict__").get("failing", {})
        if name in failing:
            raise CuBLASLtError(failing[name])
        return object.__getattribute__(self, name)

    def _refuse(self, wrong, why):
        if wrong:
            raise CuBLASLtError(7, why)

    def _new(self, **facts):
        number = 1000 + len(self.objects)
        self.objects[number] = SimpleNamespace(destroyed=False, **facts)
        return number

    def _get(self, number, kind):
        made = self.objects[number]
        self._refuse(made.kind != kind or made.destroyed, f"{number} is no {kind}")
        return made

    def get_version(self):
        return 131000

    def create(self):
        return self._new(kind="handle")

    def destroy(self, light_handle):
        self._get(light_handle, "handle").destroyed = True

    def matmul_desc_create(self, compute_type, scale_type):
        self._refuse((compute_type, scale_type) != (68, 0), "types of sums and scales")
        return self._new(kind="product", transa=0, transb=0)

    def matmul_desc_destroy(self, matmul_desc):
        self._get(matmul_desc, "product").destroyed = True

    def matmul_desc_set_attribute(self, matmul_desc, attr, buf, size_in_bytes):
        self._set(self._get(matmul_desc, "product"), OF_PRODUCT, attr, buf, size_in_bytes)

    def matrix_layout_create(self, type, rows, cols, ld):
        self._refuse(type not in TYPES or rows < 1 or cols < 1 or ld < rows, f"a layout of {rows} times {cols}, {ld} apart")
        return self._new(kind="layout", type=type, rows=rows, cols=cols, ld=ld)

    def matrix_layout_destroy(self, mat_layout):
        self._get(mat_layout, "layout").destroyed = True

    def matmul_preference_create(self):
        return self._new(kind="wish", workspace=0, align_a=256, align_b=256, align_c=256, align_d=256)

    def matmul_preference_destroy(self, pref):
        self._get(pref, "wish").destroyed = True

    def matmul_preference_set_attribute(self, pref, attr, buf, size_in_bytes):
        self._set(self._get(pref, "wish"), OF_WISH, attr, buf, size_in_bytes)

    def _set(self, made, attributes, attr, buf, size):
        name, held, allowed = attributes[attr]
        self._refuse(size != ctypes.sizeof(held), f"{name} has {size} bytes")
        value = held.from_address(buf).value
        self._refuse(allowed is not None and value not in allowed, f"{name} is {value}")
        setattr(made, name, value)

    def matmul_algo_get_heuristic(
        self, light_handle, operation_desc, adesc, bdesc, cdesc, ddesc, preference, requested_algo_count,
        heuristic_results_array, return_algo_count,
    ):  # fmt: skip
        self.asked += 1
        self._get(light_handle, "handle")
        self._refuse(requested_algo_count != 1, "one is wanted")
        self._fit(operation_desc, adesc, bdesc, cdesc, ddesc)
        wish = self._get(preference, "wish")
        self._refuse(wish.workspace < NEEDED, "too small a workspace")
        self.algorithms.append(SimpleNamespace(**vars(wish)))
        whole = (ctypes.c_uint8 * self.matmul_heuristic_result_dtype.itemsize).from_address(heuristic_results_array)
        result = np.frombuffer(whole, self.matmul_heuristic_result_dtype)
        result["algo"][0, 0], result["workspace_size"], result["state"] = len(self.algorithms), NEEDED, self.state
        ctypes.c_int32.from_address(return_algo_count).value = self.found

    def _fit(self, product, a, b, c, d):
        """The shapes: m, n, k."""
        product, (a, b, c, d) = self._get(product, "product"), (self._get(x, "layout") for x in (a, b, c, d))
        (m, k), (k_too, n) = (
            (a.cols, a.rows) if product.transa else (a.rows, a.cols),
            (b.cols, b.rows) if product.transb else (b.rows, b.cols),
        )
        self._refuse(k != k_too or (d.rows, d.cols) != (m, n) or vars(c) != vars(d), "shapes that don't fit")
        self._refuse(a.type != b.type or d.type != 0, "types that don't go together")

    def matmul(
        self, light_handle, compute_desc, alpha, a, adesc, b, bdesc, beta, c, cdesc, d, ddesc, algo, workspace,
        workspace_size_in_bytes, stream,
    ):  # fmt: skip
        self.multiplied += 1
        self._get(light_handle, "handle")
        self._fit(compute_desc, adesc, bdesc, cdesc, ddesc)
        if self.driver.captured is not None and not self.captures:
            raise CuBLASLtError(13, "the stream is captured")
        wish = self.algorithms[ctypes.c_uint64.from_address(algo).value - 1]
        self._refuse(stream != STREAM or c != d, "another stream, or another C")
        self._refuse(workspace_size_in_bytes < NEEDED or workspace % 256, "the workspace")
        self._within(workspace, workspace_size_in_bytes)
        for name, address in (("a", a), ("b", b), ("c", c), ("d", d)):
            self._refuse(address % getattr(wish, f"align_{name}"), f"{name} is aligned to less than was said")
        scale, kept = (ctypes.c_float.from_address(x).value for x in (alpha, beta))
        a, b, d = (self._matrix(x, self._get(layout, "layout")) for x, layout in ((a, adesc), (b, bdesc), (d, ddesc)))
        product = self._get(compute_desc, "product")
        self.driver.enqueue(partial(self._multiply, a.T if product.transa else a, b.T if product.transb else b, d, scale, kept))

    def _multiply(self, a, b, d, scale, kept):
        sums = np.float32(scale) * (a.astype(np.float32) @ b.astype(np.float32))
        d[...] = sums + np.float32(kept) * d if kept else sums

    def _within(self, address, nbytes):
        inside = any(begin <= address and address + nbytes <= begin + len(block) for begin, block in self.driver.blocks.items())
        self._refuse(not inside, f"{nbytes} bytes from {address} on weren't allocated")

    def _matrix(self, address, layout):
        """What lies at an address, in columns."""
        dtype = TYPES[layout.type]
        elements = layout.ld * (layout.cols - 1) + layout.rows
        self._within(address, elements * dtype.itemsize)
        flat = np.frombuffer((ctypes.c_uint8 * (elements * dtype.itemsize)).from_address(address), dtype)
        return np.lib.stride_tricks.as_strided(flat, (layout.rows, layout.cols), (dtype.itemsize, layout.ld * dtype.itemsize))


def fast_provider(load=None):
    """The provider for fast numerics on stand-ins, and these: of the driver, and of the library."""
    driver = FakeDriver()
    library = FakeCublasLt(driver)
    device = CUDA(Driver(driver), 0, "sm_90", lambda source, architecture: source.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "load", load or (lambda: library))
        return products.made(device, {"device": "none"}), driver, library
