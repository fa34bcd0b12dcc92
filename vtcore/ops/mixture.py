"""Mixtures of experts: what the chosen experts compute, each token's products with the matrices of its own experts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from vtcore.op import Array, Call, Tolerance, op
from vtcore.ops.activation import gelu_mul, relu_squared, silu_mul, situ_mul, swiglu_oai
from vtcore.ops.exact import narrow, wide
from vtcore.ops.inputs import blocks, cut, ints, normal, ones, sixteen
from vtcore.ops.linear import linear, linear_q8
from vtcore.ops.rules import first, inside, positive, unless
from vtcore.quant.blocks import FORMATS, BlockFormat, Blocks

Stack = Array | Sequence[Array]  # E matrices: [E, N, K], or one by one
ACTS = ("silu", "gelu", "oai", "situ", "relu2")
SIGNATURE = (
    "x[T K], weights[T k], ids[T k]:i, gate[N K]*:w?, up[N K]*:w, down[M N]*:w, gate_bias[E N]?, up_bias[E N]?, down_bias[E M]? -> [T M]"
)
SUMS = Tolerance(
    {"float32": 1e-4}, "float32 sums of two products, one behind the other, in another order: under 1000 ulp of the row's largest"
)
STEPS = Tolerance(
    {"float32": 1e-2},
    "the activation between two products is rounded to 8 bits: a last place of it may move a code by one, 1/127 of a block's largest",
)


def _call(rng: np.random.Generator, t: int, k: int, shape: tuple[int, int, int, int], **other: Any) -> Call:
    e, inner, width, out = shape
    call = {
        "x": normal(rng, t, width),
        "weights": rng.uniform(0.1, 1, (t, k)).astype(np.float32),
        "ids": rng.integers(0, e, (t, k)).astype(np.int32),
        "gate": normal(rng, e, inner, width, magnitude=width**-0.5),
        "up": normal(rng, e, inner, width, magnitude=width**-0.5),
        "down": normal(rng, e, out, inner),
    }
    return call | other


def _biases(rng: np.random.Generator, e: int, inner: int, out: int) -> Call:
    return {"gate_bias": normal(rng, e, inner), "up_bias": normal(rng, e, inner), "down_bias": normal(rng, e, out)}


def _samples(rng: np.random.Generator) -> Iterator[Call]:
    for t, k, shape in (
        (1, 2, (8, 48, 64, 64)),
        (3, 1, (4, 17, 33, 29)),
        (0, 2, (3, 8, 8, 8)),
        (40, 3, (5, 16, 40, 24)),
        (2, 4, (1, 8, 8, 8)),
    ):
        yield _call(rng, t, k, shape)
    call = _call(rng, 6, 2, (4, 24, 32, 40))
    yield call | {name: list(call[name]) for name in ("gate", "up", "down")}
    yield call | {"weigh_input": True}
    yield call | {"act": "gelu"}
    yield call | {"act": "relu2", "gate": None}
    yield call | {"limit": 0.5}
    yield call | {"act": "oai", "limit": 1.5} | _biases(rng, 4, 24, 40)
    yield call | {"act": "oai", "alpha": 1.0, "limit": 7.0}
    yield call | {"act": "situ", "alpha": 1.0, "limit": 2.0}
    yield call | {"act": "situ", "alpha": 4.0}
    yield call | {"x": cut(call["x"]), "weights": cut(call["weights"]), "up": [cut(m) for m in call["up"]]}
    yield call | {"up": call["up"].astype(np.float16), "down": call["down"].astype(np.float16)}
    yield from sixteen(call | _biases(rng, 4, 24, 40))
    for name in ("Q8_0", "Q4_K", "Q6_K", "MXFP4", "F8_E4M3"):
        yield _quantised(rng, FORMATS[name], FORMATS["Q8_0"])


def _quantised(rng: np.random.Generator, fmt: BlockFormat, other: BlockFormat, t: int = 9) -> Call:
    """Experts of which gate and up are of one format, down of another."""
    inner, width = -(-48 // other.block) * other.block, max(64, fmt.block)
    call = _call(rng, t, 2, (3, inner, width, 40))
    return call | {n: _stack(rng, 3, inner, width, fmt) for n in ("gate", "up")} | {"down": _stack(rng, 3, 40, inner, other)}


def _stack(rng: np.random.Generator, e: int, n: int, k: int, fmt: BlockFormat) -> Blocks:
    return Blocks(blocks(rng, e * n, k, fmt).data.reshape(e, n, -1), fmt)


def _errors() -> Iterator[tuple[Call, str]]:
    good = _call(np.random.default_rng(0), 2, 2, (3, 4, 8, 6))
    yield good | {"ids": ints(0, 3).reshape(1, 2).repeat(2, 0)}, "ids holds 3; it must be in [0, 3)"
    yield good | {"down": ones(3, 6, 5)}, "axis N of down"
    yield good | {"down": ones(2, 6, 4)}, "gate has 3 experts, up 3, down 2; they must be as many"
    yield good | {"up_bias": ones(2, 4)}, "up_bias has 2 rows; it must have one for each of 3 experts"
    yield good | {"act": "tanh"}, "act is 'tanh'; it must be silu, gelu, oai, situ or relu2"
    yield good | {"act": "relu2"}, "act is relu2, which has no gate"
    yield good | {"gate": None}, "act is silu, which needs a gate"
    yield good | {"limit": 0.0}, "limit is 0.0; it must be over 0"
    yield good | {"weights": ones(2, 3)}, "axis k of ids"


def _rules(
    ids: Array, gate: Stack | None, up: Stack, down: Stack, gate_bias: Array | None, up_bias: Array | None, down_bias: Array | None,
    act: str, limit: float, **_: object,
) -> str | None:  # fmt: skip
    counts = {n: count(v) for n, v in (("gate", gate), ("up", up), ("down", down)) if v is not None}
    each = counts["up"]
    biases = {"gate_bias": gate_bias, "up_bias": up_bias, "down_bias": down_bias}
    rows = [
        f"{n} has {b.shape[0]} rows; it must have one for each of {each} experts"
        for n, b in biases.items()
        if b is not None and b.shape[0] != each
    ]
    shown = ", ".join(f"{n} has {v} experts" if i == 0 else f"{n} {v}" for i, (n, v) in enumerate(counts.items()))
    return first(
        unless(act in ACTS, f"act is {act!r}; it must be silu, gelu, oai, situ or relu2"),
        unless((act == "relu2") == (gate is None), f"act is {act}, which {'has no gate' if act == 'relu2' else 'needs a gate'}"),
        unless(each > 0 and set(counts.values()) == {each}, f"{shown}; they must be as many, and at least one"),
        *rows,
        positive(limit=limit),
        inside("ids", ids, 0, each),
    )


def count(stack: Any) -> int:
    """How many experts there are."""
    return len(stack) if isinstance(stack, (list, tuple)) else int(stack.shape[0])


@op(SIGNATURE, samples=_samples, errors=_errors, tolerance=SUMS, check=_rules)
def experts(
    x: Array, weights: Array, ids: Array, gate: Stack | None, up: Stack, down: Stack, gate_bias: Array | None = None,
    up_bias: Array | None = None, down_bias: Array | None = None, act: str = "silu", alpha: float = 1.702, limit: float = math.inf,
    weigh_input: bool = False,
) -> Array:  # fmt: skip
    """For each token the sum over its experts of weight * down(act(gate x, up x)); only the experts that are asked for compute.

    x [T K]; weights and ids [T k] as `route` gives them. gate, up, down: each E matrices [N K], [N K], [M N], dense or quantised, as one
    array with an axis more in front or as a list; gate_bias, up_bias [E N], down_bias [E M].
    act: silu and gelu (tanh form), act(gate) * up; oai and situ, swiglu_oai and situ_mul with alpha; relu2, relu(up)^2, without a gate.
    limit: as in silu_mul, swiglu_oai and situ_mul. weigh_input: the weight multiplies x instead of the result (Llama 4).
    Each product, activation and weighted x is rounded to float32, and so is the sum, once. Shazeer and others, 2017; gpt-oss, 2025."""
    mats, biases = (gate, up, down), (gate_bias, up_bias, down_bias)
    return _mix(linear.reference, x, weights, ids, mats, biases, act, alpha, limit, weigh_input)


def _q8_samples(rng: np.random.Generator) -> Iterator[Call]:
    for t in (0, 1, 9):
        yield _quantised(rng, FORMATS["Q8_0"], FORMATS["Q8_0"], t)
    call = _quantised(rng, FORMATS["Q4_K"], FORMATS["Q5_0"])
    yield call
    yield call | {name: list(call[name]) for name in ("gate", "up", "down")}
    yield call | {"weigh_input": True}
    yield call | {"act": "gelu"}
    yield call | {"act": "relu2", "gate": None}
    yield call | {"limit": 0.5}
    yield call | {"act": "situ", "alpha": 4.0, "limit": 25.0}
    call = _quantised(rng, FORMATS["MXFP4"], FORMATS["Q4_1"]) | _biases(rng, 3, 64, 40)
    yield call | {"act": "oai", "alpha": 1.0, "limit": 3.0}
    yield from sixteen(call)


def _q8_errors() -> Iterator[tuple[Call, str]]:
    good = _quantised(np.random.default_rng(0), FORMATS["Q8_0"], FORMATS["Q8_0"])
    yield good | {"down": ones(3, 40, 64)}, "down is float32; it must be quantised (experts takes dense weights)"
    yield good | {"ids": good["ids"] + 3}, "it must be in [0, 3)"
    yield good | {"gate": None}, "act is silu, which needs a gate"


def _q8_rules(gate: Stack | None, up: Stack, down: Stack, **other: Any) -> str | None:
    return first(
        *(_coded(n, s) for n, s in (("gate", gate), ("up", up), ("down", down)) if s is not None),
        _rules(gate=gate, up=up, down=down, **other),
    )


def _coded(name: str, stack: Any) -> str | None:
    for dtype in {m.dtype for m in stack} if isinstance(stack, (list, tuple)) else {stack.dtype}:
        if not isinstance(dtype, BlockFormat):
            return f"{name} is {dtype}; it must be quantised (experts takes dense weights)"
        if not dtype.codes:
            return f"{name} is {dtype}, which has no integer form; use experts"
    return None


@op(SIGNATURE, samples=_q8_samples, errors=_q8_errors, tolerance=STEPS, check=_q8_rules)
def experts_q8(
    x: Array, weights: Array, ids: Array, gate: Stack | None, up: Stack, down: Stack, gate_bias: Array | None = None,
    up_bias: Array | None = None, down_bias: Array | None = None, act: str = "silu", alpha: float = 1.702, limit: float = math.inf,
    weigh_input: bool = False,
) -> Array:  # fmt: skip
    """`experts` with the products of linear_q8: what each multiplies is rounded to 8 bits. All matrices are quantised.

    x [T K], weights and ids [T k], gate and up E matrices [N K], down [M N]; gate_bias, up_bias, down_bias, act, alpha, limit and
    weigh_input as in experts."""
    mats, biases = (gate, up, down), (gate_bias, up_bias, down_bias)
    return _mix(linear_q8.reference, x, weights, ids, mats, biases, act, alpha, limit, weigh_input)


def _mix(
    multiply: Callable[..., Array], x: Array, weights: Array, ids: Array, mats: Sequence[Any], biases: Sequence[Any], act: str,
    alpha: float, limit: float, weigh_input: bool,
) -> Array:  # fmt: skip
    tokens, k = ids.shape
    rows = narrow(x)[:, None].repeat(k, 1)
    rows = narrow(rows * wide(weights)[..., None]) if weigh_input else rows
    flat, chosen = rows.reshape(tokens * k, x.shape[1]), ids.reshape(-1)
    out = np.zeros((tokens * k, mats[2][0].shape[0]), np.float32)
    for e in np.unique(chosen):
        mine = chosen == e
        products = [_projection(multiply, m, b, e) for m, b in zip(mats, biases, strict=True)]
        out[mine] = products[2](_activated([p and p(flat[mine]) for p in products[:2]], act, alpha, limit))
    return _summed(out.reshape(tokens, k, out.shape[1]), None if weigh_input else weights)


def _projection(multiply: Callable[..., Array], stack: Stack | None, bias: Array | None, e: int) -> Any:
    return None if stack is None else lambda rows: multiply(rows, stack[e], None if bias is None else bias[e])


def _activated(inner: Sequence[Any], act: str, alpha: float, limit: float) -> Array:
    gate, up = inner
    if act == "relu2":
        return np.asarray(relu_squared.reference(up))
    join = {
        "silu": lambda: silu_mul.reference(gate, up, limit),
        "gelu": lambda: gelu_mul.reference(gate, up),
        "situ": lambda: situ_mul.reference(gate, up, alpha, limit),
        "oai": lambda: swiglu_oai.reference(gate, up, alpha, limit),
    }
    return np.asarray(join[act]())


def _summed(y: Array, weights: Array | None) -> Array:
    """y [T k M], each times its weight, summed in the order of k."""
    total = np.zeros((y.shape[0], y.shape[2]))
    for j in range(y.shape[1]):
        total += wide(y[:, j]) * (1 if weights is None else wide(weights)[:, j, None])
    return narrow(total)
