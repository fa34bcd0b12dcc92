"""Calls of one op to time: of wanted sizes, and as many others like them as it takes to give every call new values."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import ml_dtypes
import numpy as np

from vtcore.errors import ArgumentError, nearest
from vtcore.op import Call, Op
from vtcore.ops.inputs import blocks, normal, paged
from vtcore.quant.blocks import FORMATS, BlockFormat, Blocks
from vtcore.signature import Argument, evaluate

Array = np.ndarray[Any, Any]
DTYPES: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
DTYPES |= {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
FREE: dict[tuple[str, str], str] = {  # integers that may be any below a size, or a number
    ("embedding", "ids"): "N", ("look_up", "ids"): "N", ("look_up", "table"): "8192", ("experts", "ids"): "E", ("experts_q8", "ids"): "E",
    ("rope_angles", "positions"): "8192", ("position_growth", "positions"): "8192", ("random_sample", "seeds"): "2**31 - 1",
    ("random_sample", "steps"): "8192", ("apply_penalties", "counts"): "8",
}  # fmt: skip
ATTENTION = {
    "R": None,
    "L": None,
    "T": 1,
    "Hq": None,
    "Hk": None,
    "D": None,
    "S": 32,
}  # of paged_attention: size -> what it is if not given


def shaped(op: Op, sizes: Mapping[str, int], dtype: str = "f32", given: Mapping[str, Any] | None = None, also: Iterable[str] = ()) -> Call:
    """A call whose axes have these sizes; `T` stands for `...` where no axis has that name. Weights have the dtype, and where an op has
    none all its float arrays. `given` are scalars; the others have their defaults, or what the op's first sample has. `also` are optional
    arrays that are to be there.

    Raises ArgumentError for sizes that are missing or unknown, or an op whose integers can't be made up."""
    rng = np.random.default_rng(0)
    if op.name == "paged_attention":
        return op.bind(**(_attention(rng, sizes, _dense(dtype)) | dict(given or {})))
    also = list(also)
    if unknown := sorted(set(also) - {a.name for a in op.signature.arguments.values() if a.optional}):
        raise ArgumentError(f"{op.name} has no optional array {unknown[0]!r}: {op.signature.text}")
    known, scalars = dict(sizes), _scalars(op, sizes, dict(given or {}))
    arguments = [a for a in op.signature.arguments.values() if a.name in also or op.parameters[a.name] is inspect.Parameter.empty]
    _check_sizes(op, arguments, known, set(scalars))
    weights = any(a.kind == "w" for a in op.signature.arguments.values())
    call = {a.name: _array(op, a, known, dtype if a.kind == "w" or not weights else "f32", rng) for a in arguments}
    return op.bind(**call, **scalars)


def other(op: Op, name: str, value: Any, base: Call, rng: np.random.Generator) -> Any:
    """Another value for one argument, of the same shape and dtype: floats turned along the last axis and made smaller, free integers drawn
    anew. A scalar, and integers that mean something, as they are."""
    if isinstance(value, (list, tuple)):
        return type(value)(other(op, name, v, base, rng) for v in value)
    if isinstance(value, Blocks):
        return Blocks(np.roll(value.data, int(rng.integers(1 << 20)), 0), value.dtype)
    if not isinstance(value, np.ndarray):
        return value
    if (op.name, name) in FREE:
        return rng.integers(0, _below(op, name, base), value.shape).astype(value.dtype)
    if value.dtype.kind in "iub":
        return value
    turned = np.roll(value, int(rng.integers(1 << 20)), -1) if value.ndim else value
    return np.asarray(turned.astype(np.float32) * np.float32(rng.uniform(0.5, 1))).astype(value.dtype)


def weights_of(op: Op) -> frozenset[str]:
    """The arguments that stay what they are from call to call, as a model's weights do."""
    names = frozenset(a.name for a in op.signature.arguments.values() if a.kind == "w")
    return names if any(a.kind == "f" or (op.name, a.name) in FREE for a in op.signature.arguments.values()) else frozenset()


def arrays_of(value: Any) -> list[Any]:
    """The arrays of an argument."""
    if isinstance(value, (list, tuple)):
        return list(value)
    return [value] if hasattr(value, "shape") else []


def _below(op: Op, name: str, base: Call) -> int:
    ids = base.get("up")
    sizes = op.signature.bind(op.name, base) | ({} if ids is None else {"E": len(ids)})
    return evaluate(FREE[op.name, name], sizes)


def _scalars(op: Op, sizes: Mapping[str, int], given: dict[str, Any]) -> dict[str, Any]:
    """What is no array, by name: given, a size of that name, the default, or that of the first sample."""
    sample = op.bind(**next(iter(op.samples(np.random.default_rng(0)))))
    names = [n for n in op.parameters if n not in op.signature.arguments]
    if unknown := sorted(set(given) - set(names)):
        raise ArgumentError(f"{op.name} has no number {unknown[0]!r}; it has {', '.join(names) or 'none'}")
    default = {n: sample[n] if op.parameters[n] is inspect.Parameter.empty else op.parameters[n] for n in names}
    return {n: given.get(n, sizes.get(n, default[n])) for n in names}


def _check_sizes(op: Op, arguments: Iterable[Argument], sizes: dict[str, int], scalars: set[str]) -> None:
    """Adds what `...` stands for."""
    axes = [axis for a in arguments for axis in ((*a.axes, "E") if a.many else a.axes)]
    names = {a for a in axes if a.isidentifier()}
    if "..." in axes and "T" not in names and "T" in sizes:
        sizes["..."] = sizes["T"]
        names.add("T")
    elif "..." in axes:
        names.add("T")
    wanted = ", ".join(sorted(names))
    if missing := sorted(names - sizes.keys()):
        raise ArgumentError(f"--shape lacks {', '.join(missing)}; {op.name} needs sizes for {wanted}: {op.signature.text}")
    if unknown := sorted(sizes.keys() - names - scalars - {"..."}):
        raise ArgumentError(f"--shape names {', '.join(unknown)}; {op.name} has {wanted}: {op.signature.text}")


def _array(op: Op, argument: Argument, sizes: Mapping[str, Any], dtype: str, rng: np.random.Generator) -> Any:
    shape = tuple(sizes[axis] if axis == "..." else evaluate(axis, sizes) for axis in argument.axes)
    shape = (sizes["E"], *shape) if argument.many else shape
    if argument.kind == "i":
        if (op.name, argument.name) not in FREE:
            raise ArgumentError(
                f"{op.name} takes integers that hang together ({argument.name}): time a sample (--sample) or a case (--case)"
            )
        return rng.integers(0, evaluate(FREE[op.name, argument.name], sizes), shape).astype(np.int32)
    if argument.kind == "b":
        return rng.random(shape) < 0.5
    if dtype in FORMATS:
        return _blocks(argument, shape, FORMATS[dtype], rng)
    return normal(rng, *shape).astype(_dense(dtype))


def _blocks(argument: Argument, shape: tuple[int, ...], fmt: BlockFormat, rng: np.random.Generator) -> Blocks:
    if argument.kind != "w" or shape[-1] % fmt.block:
        raise ArgumentError(f"{argument.name} {list(shape)} can't be {fmt.name}: weights can, whose rows are a multiple of {fmt.block}")
    rows = int(np.prod(shape[:-1]))
    return Blocks(blocks(rng, rows, shape[-1], fmt).data.reshape(*shape[:-1], -1), fmt)


def _dense(dtype: str) -> np.dtype[Any]:
    if dtype not in DTYPES:
        raise ArgumentError(f"dtype is {dtype!r}{nearest(dtype, [*DTYPES, *FORMATS])}; it must be one of {', '.join([*DTYPES, *FORMATS])}")
    dense: np.dtype[Any] = np.dtype(DTYPES[dtype])
    return dense


def _attention(rng: np.random.Generator, sizes: Mapping[str, int], dtype: np.dtype[Any]) -> Call:
    """R sequences of L tokens, the last T of each being asked; pages of S tokens, keys and values of the dtype."""
    n = {**ATTENTION, **sizes}
    if wrong := sorted(k for k, v in n.items() if v is None or k not in {*ATTENTION, "Dv"}):
        raise ArgumentError(f"--shape for paged_attention: {', '.join(wrong)}; it takes R, L, Hq, Hk, D and perhaps T (1), Dv (D), S (32)")
    size = {k: int(v or 0) for k, v in n.items()}
    if not 1 <= size["T"] <= size["L"]:
        raise ArgumentError(f"--shape for paged_attention: T is {size['T']}; it must be from 1 to L, {size['L']}")
    width = (size["D"], size.get("Dv", size["D"]))
    made = paged(rng, [size["T"]] * size["R"], [size["L"]] * size["R"], (size["Hq"], size["Hk"]), width, size["S"])
    return made | {name: made[name].astype(dtype) for name in ("k_pages", "v_pages")}
