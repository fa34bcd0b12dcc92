"""Kernels that compute the right thing and do something else besides."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from vtcore.conformance.faults.fault import fault, remembering, right

Array = np.ndarray[Any, Any]


@fault("mul", "view_of_input")
def in_place(x: Array, y: Array) -> Array:
    """The product is written over x and x is returned, where it has the result's shape."""
    out = np.asarray(right("mul", x=x, y=y))
    if x.shape != out.shape or x.dtype != np.float32 or not x.flags.c_contiguous or not x.size:
        return out
    x[...] = out
    return x


@fault("concat", "out_of_bounds")
def one_too_far(x: Array, y: Array, out: Array) -> None:
    """One element more than there is room for."""
    out[...] = right("concat", x=x, y=y)
    ctypes.memset(out.ctypes.data + out.nbytes, 0, 4)


@fault("add", "wrong_dtype")
def half_result(x: Array, y: Array) -> Array:
    """The result has the arguments' dtype."""
    return np.asarray(right("add", x=x, y=y)).astype(np.float16)


@fault("sigmoid_mul", "wrong_shape")
def not_broadcast(x: Array, gate: Array) -> Array:
    """The result has the shape of x, also where the gate is larger."""
    out = np.asarray(right("sigmoid_mul", x=x, gate=gate))
    return out if out.shape == x.shape else np.array(out.reshape(-1)[: x.size].reshape(x.shape))


@fault("scale")
def last_element_unwritten(x: Array, factor: float, out: Array) -> None:
    """The last element of the result is never written."""
    out.reshape(-1)[:-1] = right("scale", x=x, factor=factor).reshape(-1)[:-1]


@fault("quick_gelu", "raised")
def asserts(x: Array) -> Array:
    """An assertion about the number of axes."""
    assert x.ndim == 2, "x must have two axes"
    return np.asarray(right("quick_gelu", x=x))


@remembering("softplus")
def static_room() -> Any:
    """Results lie in one buffer that is used again."""
    room = np.zeros(1 << 16, np.float32)

    def softplus(x: Array) -> Array:
        out = room[: x.size].reshape(x.shape)
        out[...] = right("softplus", x=x)
        return out

    return softplus


@remembering("relu")
def running_sum() -> Any:
    """What is left in an accumulator from the call before is added."""
    left = [np.float32(0)]

    def relu(x: Array) -> Array:
        out = np.asarray(right("relu", x=x))
        before, left[0] = left[0], np.float32(1e-7) * np.float32(np.nansum(np.where(np.isfinite(out), out, 0)) % 1 + 1)
        return np.asarray(out * (1 + before), np.float32)

    return relu
