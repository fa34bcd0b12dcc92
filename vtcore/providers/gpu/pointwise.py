"""Ops that are a formula of each value: a kernel, and the function that launches it, made of one expression."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from vtcore.op import Op
from vtcore.providers.gpu.device import Device, dtype_name
from vtcore.providers.gpu.table import runs
from vtcore.providers.gpu.views import broadcast, strides_in
from vtcore.providers.kernels import maths
from vtcore.providers.kernels.declare import Kernel, buffers, kernel
from vtcore.tensor import Tensor, empty

AXES = 4
FLOATS = "f32|f16|bf16"


class Pointwise(NamedTuple):
    """A kernel over float arrays that broadcast, and numbers."""

    kernel: Kernel

    def __call__(self, device: Device, tensors: list[Tensor], numbers: list[float]) -> Tensor:
        """The formula's values, contiguous, in the shape that the arrays broadcast to."""
        shape = np.broadcast_shapes(*(t.shape for t in tensors))
        seen = [self._seen(device, i, t) for i, t in enumerate(tensors)]
        sizes, steps = joined(shape, *(strides_in(t, shape) for t in seen))
        if len(sizes) > AXES:
            seen = [broadcast(device, t, shape) for t in seen]
            sizes, steps = joined(shape, *(t.strides for t in seen))
        result = empty(device, shape)
        lead = AXES - len(sizes)
        plain = len(sizes) < 2 and all(s in ([], [1]) for s in steps)
        walk = [n for s in steps for n in ([0] * lead + [n & 0xFFFFFFFF for n in s])]
        device.each(self.kernel, [*seen, result], [int(plain), *([1] * lead + sizes)[1:], *walk, *numbers], result.size)
        return result

    def _seen(self, device: Device, i: int, t: Tensor) -> Tensor:
        """Itself where the kernel reads its dtype, else as float32."""
        return t if dtype_name(t) in self.kernel.buffers[i].dtypes else broadcast(device, t, t.shape)


def pointwise(name: str, formula: str, reads: str, numbers: str = "") -> Pointwise:
    """The kernel of a formula over the arrays `reads` (as `buffers` takes them), and numbers, float where nothing else is said."""
    arrays = [word.partition(":")[0] for word in reads.split()]
    found = "; ".join(f"{a}_at = j * {a}3" for a in arrays)
    for axis in (2, 1):
        found += f"; j = i % n{axis}; i /= n{axis}; " + "; ".join(f"{a}_at += j * {a}{axis}" for a in arrays)
    found += "; " + "; ".join(f"{a}_at += i * {a}0" for a in arrays)
    body = f"""
    if (INDEX < total) {{
        uint {", ".join(f"{a}_at = INDEX" for a in arrays)};
        if (plain == 0u) {{ uint i = INDEX, j = i % n3; i /= n3; {found}; }}
        float {", ".join(f"{a} = LD_{a}({a}_at)" for a in arrays)};
        ST_result(INDEX, {formula});
    }}
"""
    steps = " ".join(f"{a}{axis}" for a in arrays for axis in range(AXES))
    scalars = " ".join(n if ":" in n else f"{n}:f32" for n in numbers.split())
    declared = kernel(
        name, buffers(reads=reads, writes="result"), f"total plain n1 n2 n3 {steps} {scalars}", body, helpers=maths.text(formula)
    )
    return Pointwise(declared)


def formula(op: Op, text: str, **dtypes: str) -> None:
    """Enter an op whose arrays are all needed, and whose other arguments are numbers. `dtypes` of an array: f32 where nothing is said."""
    arrays = list(op.signature.arguments)
    numbers = [n for n in op.parameters if n not in arrays]
    run = pointwise(op.name, text, " ".join(f"{a}:{dtypes[a]}" if a in dtypes else a for a in arrays), " ".join(numbers))

    @runs(op)
    def launched(device: Device, **call: Any) -> Tensor:
        return run(device, [call[a] for a in arrays], [call[n] for n in numbers])


def joined(shape: tuple[int, ...], *strides: tuple[int, ...]) -> tuple[list[int], list[list[int]]]:
    """Sizes of a shape's axes, and the strides of each array along them; neighbours that one stride of each array walks are one axis."""
    sizes: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for n, *along in zip(shape, *strides, strict=True):
        if n == 1:
            continue
        if sizes and all(kept[-1] == s * n for kept, s in zip(steps, along, strict=True)):
            n *= sizes.pop()
            for kept in steps:
                kept.pop()
        sizes.append(n)
        for kept, s in zip(steps, along, strict=True):
            kept.append(s)
    return sizes, steps
