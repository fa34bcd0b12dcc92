"""per_head: the products of `experts`, where a head's rows are the pairs of its matrix. A row's bits are as in `linear`."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from vtcore import ops
from vtcore.providers.portable.arrays import float32_rows, not_float
from vtcore.providers.portable.kernels.experts import Plan, multiply, stack_of
from vtcore.providers.portable.provider import Portable
from vtcore.tensor import Tensor, of

PLANS = 64  # of shapes, that are kept


@lru_cache(PLANS)
def _plan(tokens: int, heads: int) -> Plan:
    """Every head has a row of each token: what sorting them would give."""
    each = np.arange(heads)
    order = np.arange(tokens * heads).reshape(tokens, heads).T
    data = np.concatenate([np.arange(heads + 1) * tokens, [heads], each, each, order.reshape(-1)]).astype(np.int32)
    return Plan(of(data), tokens * heads, heads, of(np.tile(each.astype(np.int32), (tokens, 1))))


def register(p: Portable) -> None:
    """per_head, and its preparation."""

    @p.kernel(ops.per_head, declines=lambda x, weight: not_float(x=x, weight=weight))
    def per_head(x: Tensor, weight: Tensor) -> Tensor:
        tokens, heads, a = x.shape
        rows = float32_rows(p, x).reshape(tokens * heads, a)
        if not rows.size:
            return of(np.zeros((tokens, heads, weight.shape[2]), np.float32))
        return multiply(p, False, rows, weight.transpose(0, 2, 1), None, _plan(tokens, heads)).reshape(tokens, heads, weight.shape[2])

    def prepare(weight: Tensor) -> None:
        if not_float(weight=weight) is None:
            stack_of(p, weight.transpose(0, 2, 1))

    p.preparers[ops.per_head.name] = prepare
