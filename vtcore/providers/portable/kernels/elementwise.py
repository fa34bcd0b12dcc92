"""Value by value: sums, products, caps, activations and gates. One kernel for one array, one for two; the formula is static."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from vtcore import ops
from vtcore.memory import HOST
from vtcore.providers.portable import maths
from vtcore.providers.portable.arrays import AXES, broadcast, contiguous, copy_to, dtype_of, joined, not_float, padded, walk
from vtcore.providers.portable.jit import Static, kernel
from vtcore.providers.portable.lanes import SIZES, Lanes
from vtcore.providers.portable.launch import Word
from vtcore.providers.portable.provider import Portable
from vtcore.providers.portable.value import Val
from vtcore.tensor import Tensor, empty


def _gelu(k: Lanes, x: Val) -> Val:
    return x * maths.normal_share(k, x)


def _gelu_tanh(k: Lanes, x: Val) -> Val:
    """x / 2 * (1 + tanh(u)) is x * sigmoid(2 u), which loses nothing where tanh(u) is near -1."""
    return x * maths.sigmoid(k, k.fma(x * x * x, k.like(x, 0.044715), x) * (2 * math.sqrt(2 / math.pi)))


def _silu(k: Lanes, x: Val) -> Val:
    return x / (maths.exp(k, -x) + 1.0)


def _relu(k: Lanes, x: Val) -> Val:
    return k.select(x < 0.0, k.like(x, 0.0), x)


def _at_most(k: Lanes, x: Val, limit: Val) -> Val:
    return k.select(x > limit, limit, x)


def _within(k: Lanes, x: Val, limit: Val) -> Val:
    return k.select(x < -limit, -limit, _at_most(k, x, limit))


def _swiglu_oai(k: Lanes, g: Val, u: Val, alpha: Val, limit: Val) -> Val:
    g = _at_most(k, g, limit)
    return g * maths.sigmoid(k, g * alpha) * (_within(k, u, limit) + 1.0)


def _situ(k: Lanes, g: Val, alpha: Val) -> Val:
    return maths.tanh(k, g / alpha) * alpha * maths.sigmoid(k, g)


# name -> f(k, x, a) and f(k, x, y, a, b): registers of x and y, and of the call's numbers
ONE: dict[str, Callable[..., Val]] = {
    "scale": lambda k, x, a: x * a,
    "softcap": lambda k, x, a: maths.tanh(k, x / a) * a,
    "sigmoid": lambda k, x, a: maths.sigmoid(k, x),
    "silu": lambda k, x, a: _silu(k, x),
    "gelu": lambda k, x, a: _gelu(k, x),
    "gelu_tanh": lambda k, x, a: _gelu_tanh(k, x),
    "quick_gelu": lambda k, x, a: x * maths.sigmoid(k, x * 1.702),
    "relu": lambda k, x, a: _relu(k, x),
    "relu_squared": lambda k, x, a: _relu(k, x) * _relu(k, x),
    "softplus": lambda k, x, a: maths.softplus(k, x),
}
TWO: dict[str, Callable[..., Val]] = {
    "add": lambda k, x, y, a, b: x + y,
    "mul": lambda k, x, y, a, b: x * y,
    "sigmoid_mul": lambda k, x, y, a, b: x * maths.sigmoid(k, y),
    "silu_mul": lambda k, x, y, a, b: _silu(k, _at_most(k, x, a)) * _within(k, y, a),
    "gelu_mul": lambda k, x, y, a, b: _gelu_tanh(k, x) * y,
    "gelu_erf_mul": lambda k, x, y, a, b: _gelu(k, x) * y,
    "quick_gelu_mul": lambda k, x, y, a, b: x * maths.sigmoid(k, x * 1.702) * y,
    "swiglu_oai": lambda k, x, y, a, b: _swiglu_oai(k, x, y, a, b),
    "situ_mul": lambda k, x, y, a, b: _situ(k, x, a) * (maths.tanh(k, y / b) * b),
    "situ_mul_plain": lambda k, x, y, a, b: _situ(k, x, a) * y,
}
COST = {"add": 1, "mul": 1, "scale": 1, "relu": 1, "relu_squared": 1}  # work of an element; of the others, about 4


@kernel("x n0 n1 n2 n3 x0 x1 x2 x3 a:f -> z")
def one(k: Lanes, x: Val, n0: Val, n1: Val, n2: Val, n3: Val, x0: Val, x1: Val, x2: Val, x3: Val,
        a: Val, z: Val, *, formula: str, dtype: str) -> None:  # fmt: skip
    """z = formula(x, a), z contiguous, the last stride of x 1."""
    size, va = SIZES[dtype], k.splat(a)
    for (at, to), n in walk(k, (n0, n1, n2, n3), ((x, (x0, x1, x2, x3), size), (z, _dense(k, n1, n2, n3), 4))):
        for i, count in k.vectors(n):
            k.put(to + i * 4, ONE[formula](k, k.floats(at + i * size, dtype, count), va), "float32", count)


@kernel("x y n0 n1 n2 n3 x0 x1 x2 x3 y0 y1 y2 y3 a:f b:f -> z")
def two(k: Lanes, x: Val, y: Val, n0: Val, n1: Val, n2: Val, n3: Val, x0: Val, x1: Val, x2: Val, x3: Val,
        y0: Val, y1: Val, y2: Val, y3: Val, a: Val, b: Val, z: Val,
        *, formula: str, x_dtype: str, y_dtype: str, x_step: int, y_step: int) -> None:  # fmt: skip
    """z = formula(x, y, a, b), z contiguous; the last strides of x and y are static: 1, or 0 where it is repeated."""
    va, vb = k.splat(a), k.splat(b)
    arrays = ((x, (x0, x1, x2, x3), SIZES[x_dtype]), (y, (y0, y1, y2, y3), SIZES[y_dtype]), (z, _dense(k, n1, n2, n3), 4))
    for (left, right, to), n in walk(k, (n0, n1, n2, n3), arrays):
        for i, count in k.vectors(n):
            p, q = _part(k, left, i, count, x_dtype, x_step), _part(k, right, i, count, y_dtype, y_step)
            k.put(to + i * 4, TWO[formula](k, p, q, va, vb), "float32", count)


def _part(k: Lanes, address: Val, i: Val, count: Val | None, dtype: str, step: int) -> Val:
    return k.floats(address + i * SIZES[dtype], dtype, count) if step else k.splat(k.number(address, dtype))


def _dense(k: Lanes, n1: Val, n2: Val, n3: Val) -> tuple[Val, Val, Val, Val]:
    """Strides of a contiguous array."""
    return n1 * n2 * n3, n2 * n3, n3, k.lift(1)


def apply_one(p: Portable, formula: str, x: Tensor, a: float = 0.0) -> Tensor:
    """A formula of one array."""
    sizes, (steps,) = joined(x.shape, x.strides)
    if len(sizes) > AXES or steps[-1] != 1:
        x = contiguous(p, x)
        sizes, (steps,) = joined(x.shape, x.strides)
    out = empty(HOST, x.shape)
    words: list[Word] = [x, *padded(sizes, 1), *padded(steps, 0), a, out]
    p.launch(one, words, COST.get(formula, 4) * out.size, formula=formula, dtype=dtype_of(x))
    return out


def apply_two(p: Portable, formula: str, x: Tensor, y: Tensor, a: float = 0.0, b: float = 0.0) -> Tensor:
    """A formula of two arrays, which broadcast."""
    shape = x.shape if x.shape == y.shape else tuple(np.broadcast_shapes(x.shape, y.shape))
    sizes, steps = joined(shape, broadcast(x, shape), broadcast(y, shape))
    if len(sizes) > AXES or any(s[-1] not in (0, 1) for s in steps):
        x, y = contiguous(p, x, shape), contiguous(p, y, shape)
        sizes, steps = joined(shape, x.strides, y.strides)
    out = empty(HOST, shape)
    words: list[Word] = [x, y, *padded(sizes, 1), *padded(steps[0], 0), *padded(steps[1], 0), a, b, out]
    static: dict[str, Static] = {"x_dtype": dtype_of(x), "y_dtype": dtype_of(y), "x_step": steps[0][-1], "y_step": steps[1][-1]}
    p.launch(two, words, COST.get(formula, 4) * out.size, formula=formula, **static)
    return out


def register(p: Portable) -> None:
    """The ops that are a formula of each value."""
    for name in ("sigmoid", "silu", "gelu", "gelu_tanh", "quick_gelu", "relu", "relu_squared", "softplus"):
        _register_one(p, name)
    for name in ("add", "mul"):
        _register_two(p, name)
    for name in ("gelu_mul", "gelu_erf_mul", "quick_gelu_mul"):
        _register_gate(p, name)

    @p.kernel(ops.concat, declines=lambda x, y: not_float(x=x, y=y))
    def concat(x: Tensor, y: Tensor) -> Tensor:
        lead, width = np.broadcast_shapes(x.shape[:-1], y.shape[:-1]), x.shape[-1]
        out = empty(HOST, (*lead, width + y.shape[-1]))
        copy_to(p, x, out[..., :width])
        copy_to(p, y, out[..., width:])
        return out

    @p.kernel(ops.scale, declines=lambda x, factor: not_float(x=x))
    def scale(x: Tensor, factor: float) -> Tensor:
        return apply_one(p, "scale", x, factor)

    @p.kernel(ops.softcap, declines=lambda x, cap: not_float(x=x))
    def softcap(x: Tensor, cap: float) -> Tensor:
        return apply_one(p, "softcap", x, cap)

    @p.kernel(ops.sigmoid_mul, declines=lambda x, gate: not_float(x=x, gate=gate))
    def sigmoid_mul(x: Tensor, gate: Tensor) -> Tensor:
        return apply_two(p, "sigmoid_mul", x, gate)

    @p.kernel(ops.silu_mul, declines=lambda gate, up, limit: not_float(gate=gate, up=up))
    def silu_mul(gate: Tensor, up: Tensor, limit: float) -> Tensor:
        return apply_two(p, "silu_mul", gate, up, limit)

    @p.kernel(ops.swiglu_oai, declines=lambda gate, up, alpha, limit: not_float(gate=gate, up=up))
    def swiglu_oai(gate: Tensor, up: Tensor, alpha: float, limit: float) -> Tensor:
        return apply_two(p, "swiglu_oai", gate, up, alpha, limit)

    @p.kernel(ops.situ_mul, declines=lambda gate, up, alpha, limit: not_float(gate=gate, up=up))
    def situ_mul(gate: Tensor, up: Tensor, alpha: float, limit: float) -> Tensor:
        return apply_two(p, situ_formula(limit), gate, up, alpha, limit)


def situ_formula(limit: float) -> str:
    """Without a limit up stays as it is."""
    return "situ_mul_plain" if math.isinf(limit) else "situ_mul"


def _register_one(p: Portable, name: str) -> None:
    @p.kernel(getattr(ops, name), declines=lambda x: not_float(x=x))
    def run(x: Tensor) -> Tensor:
        return apply_one(p, name, x)


def _register_two(p: Portable, name: str) -> None:
    @p.kernel(getattr(ops, name), declines=lambda x, y: not_float(x=x, y=y))
    def run(x: Tensor, y: Tensor) -> Tensor:
        return apply_two(p, name, x, y)


def _register_gate(p: Portable, name: str) -> None:
    @p.kernel(getattr(ops, name), declines=lambda gate, up: not_float(gate=gate, up=up))
    def run(gate: Tensor, up: Tensor) -> Tensor:
        return apply_two(p, name, gate, up)
