"""`linear` of many rows by cuBLASLt, where numerics are fast: within the op's tolerance, in an order that depends on the number of rows.

A float32 row meets a weight of 16 bits as a sum of numbers of 16 bits: two of float16 or three of bfloat16 hold all of its 24 bits (of
float16 all but one or two), once a power of two has brought its largest value to about one. So a product is exact, sums are in float32, and
nothing is lost but the order. All the parts stand under each other as rows of one product, which reads the weight once."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from vtcore.errors import KernelBuildError, LibraryError, OutOfMemoryError, ProviderUnavailableError
from vtcore.numerics import NO_PRODUCTS, PRODUCTS
from vtcore.op import Call, Op
from vtcore.provider import Attempt, Decline, Function
from vtcore.providers.cuda.cublaslt import CublasLt, load
from vtcore.providers.cuda.device import CUDA
from vtcore.providers.gpu.device import Limits, too_large
from vtcore.providers.gpu.provider import Accelerator
from vtcore.providers.gpu.views import Rows, contiguous, copied, rows
from vtcore.providers.kernels.declare import buffers, kernel
from vtcore.tensor import Tensor, empty

FEWEST = 16  # rows of a product: with fewer the time goes by the weight's bytes, which the own kernel reads once or twice at most
PARTS = {"float32": 1, "float16": 2, "bfloat16": 3}  # that a float32 has in the weight's type
INSTEAD = "; the own kernel runs"
SPLIT = kernel(
    "split_rows",
    buffers(reads="x", updates="parts:f16|bf16", writes="scales"),
    "k rows x_stride pieces",
    """
    uint from = GROUP * x_stride;
    float most = 0.0f;
    for (uint i = LANE; i < k; i += WG) most = max(most, ABS(LD_x(from + i)));
    uint exponent = min(max((AS_U32(GROUP_MAX(most)) & 0x7fffffffu) >> 23u, 1u), 253u);
    for (uint i = LANE; i < k; i += WG) {
        float rest = LD_x(from + i) * AS_F32((254u - exponent) << 23u);
        bool finite = (AS_U32(rest) & 0x7f800000u) != 0x7f800000u;
        for (uint p = 0u; p < pieces; p++) {
            uint at = (p * rows + GROUP) * k + i;
            ST_parts(at, rest);
            rest = finite ? rest - LD_parts(at) : 0.0f;
        }
    }
    if (LANE == 0u) ST_scales(GROUP, AS_F32(exponent << 23u));
""",
    group=128,
)
JOIN = kernel(
    "join_rows",
    buffers(reads="sums scales bias", writes="y"),
    "total n rows pieces biased",
    """
    if (INDEX < total) {
        uint row = INDEX / n, column = INDEX % n;
        float sum = 0.0f;
        for (uint p = pieces; p > 0u; p--) sum += LD_sums(((p - 1u) * rows + row) * n + column);
        if (pieces > 1u) sum *= LD_scales(row);
        if (biased > 0u) sum += LD_bias(column);
        ST_y(INDEX, sum);
    }
""",
)


def made(device: CUDA, facts: Mapping[str, str]) -> Accelerator:
    """The provider for fast numerics: with cuBLASLt where it is here, else with the reason why not."""
    try:
        cublas = CublasLt(device, load())
    except (ProviderUnavailableError, LibraryError, OutOfMemoryError) as missing:
        return FastCUDA(device, {**facts, NO_PRODUCTS: str(missing)}, None)
    return FastCUDA(device, {**facts, PRODUCTS: f"cuBLASLt {cublas.version} for `linear`, from {FEWEST} rows on"}, cublas)


class FastCUDA(Accelerator):
    """As always, but `linear` tries cuBLASLt first. What doesn't suit it, or what it fails at, goes to the own kernel, and is reported."""

    def __init__(self, device: CUDA, facts: Mapping[str, str], cublas: CublasLt | None) -> None:
        super().__init__("cuda", device, facts)
        self.cublas = cublas
        self.failed: dict[tuple[Any, ...], str] = {}

    def accept(self, op: Op, call: Call) -> Function | Decline:
        """As every accelerator."""
        chosen = super().accept(op, call)
        if op.name != "linear" or isinstance(chosen, Decline):
            return chosen
        reason = unsuited(call["x"], call["weight"], self.device.limits) or self.facts.get(NO_PRODUCTS) or self.failed.get(_key(call))
        if reason or self.cublas is None:
            return Attempt(chosen, Decline(self.name, op.name, f"{reason}{INSTEAD}"))
        return Product(chosen, self, self.cublas)

    def close(self) -> None:
        """As every accelerator, the library first."""
        if self.cublas is not None:
            self.cublas.close()
        super().close()


class Product(Attempt):
    """One call: by cuBLASLt, or where that fails by the own kernel."""

    def __init__(self, own: Function, provider: FastCUDA, cublas: CublasLt) -> None:
        super().__init__(own)
        self._provider, self._cublas = provider, cublas

    def __call__(self, **call: Any) -> Any:
        self.passed = None
        try:
            return multiplied(self._cublas, **call)
        except (LibraryError, KernelBuildError) as wrong:  # nothing was changed yet: what is written is new
            self._provider.failed[_key(call)] = str(wrong)
            why = str(wrong)
        except OutOfMemoryError as full:  # another time there may be room
            why = str(full)
        self.passed = Decline(self._provider.name, "linear", f"{why}{INSTEAD}")
        return self.run(**call)


def _key(call: Call) -> tuple[Any, ...]:
    x, weight = call["x"], call["weight"]
    return x.shape, x.strides, weight.shape, weight.strides, str(weight.dtype)


def unsuited(x: Tensor, weight: Tensor, limits: Limits) -> str | None:
    """Why a product isn't one for cuBLASLt, by shapes, dtypes and strides; None where it is."""
    (outputs, terms), number, parts = weight.shape, prod(x.shape[:-1]), PARTS.get(str(weight.dtype))
    if number < FEWEST:
        return f"fewer than {FEWEST} rows"
    if parts is None:
        return f"weight is {weight.dtype}; cuBLASLt multiplies by {', '.join(PARTS)}"
    if reason := too_large(weight, limits):  # the own kernel sees it in parts
        return f"weight: {reason}"
    if not outputs or not terms:
        return f"weight [{outputs} {terms}] is empty"
    if (terms > 1 and weight.strides[1] != 1) or (outputs > 1 and weight.strides[0] < terms):
        return "the weight's rows don't follow each other in memory"
    if parts * number * max(outputs, terms) >= 1 << 32:
        return "the product has 2^32 elements or more, and kernels count in 32 bits"
    return None


def multiplied(cublas: CublasLt, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x weight^T + bias, float32 [..., N]. Raises LibraryError, OutOfMemoryError."""
    device, parts, seen = cublas.device, PARTS[str(weight.dtype)], rows(cublas.device, x)
    n, shape = weight.shape[0], (*x.shape[:-1], weight.shape[0])
    factor, scales = (_straight(device, seen), x) if parts == 1 else _split(device, seen, parts, weight.dtype)
    sums = empty(device, (parts * seen.number, n))
    cublas.multiply(factor, weight, sums)
    if parts == 1 and bias is None:
        return sums.reshape(shape)
    y = empty(device, shape)
    b = sums if bias is None else contiguous(device, bias)
    device.each(JOIN, [sums, scales if parts > 1 else sums, b, y], [n, seen.number, parts, int(bias is not None)], y.size)
    return y


def _straight(device: CUDA, seen: Rows) -> Tensor:
    """Rows [rows, K] of float32 that don't overlap: themselves, or a copy."""
    t, width = seen.tensor, seen.width
    if seen.stride < width:
        return copied(device, t).reshape(seen.number, width)
    return Tensor(t.storage, (seen.number, width), t.dtype, (seen.stride, 1), t.offset)


def _split(device: CUDA, seen: Rows, parts: int, dtype: Any) -> tuple[Tensor, Tensor]:
    """The parts of all rows, [parts * rows, K] in a type of 16 bits, and what each row's are to be multiplied by again [rows]."""
    factor, scales = empty(device, (parts * seen.number, seen.width), dtype), empty(device, (seen.number,))
    device.launch(SPLIT, [seen.tensor, factor, scales], [seen.width, seen.number, seen.stride, parts], seen.number)
    return factor, scales
