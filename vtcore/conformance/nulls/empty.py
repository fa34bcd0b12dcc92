"""Null kernels that compute nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from vtcore.conformance.nulls.null import arrays, as_returned, filled, null
from vtcore.op import Op
from vtcore.provider import Function
from vtcore.tensor import of


@null("wrong_value")
def zeros(op: Op) -> Function:
    """Nothing but zeros."""
    return lambda **call: filled(op, call, 0)


@null("wrong_value")
def ones(op: Op) -> Function:
    """Nothing but ones."""
    return lambda **call: filled(op, call, 1)


@null("wrong_value")
def not_a_number(op: Op) -> Function:
    """Nothing but NaN; of integers zeros."""
    return lambda **call: filled(op, call, np.nan)


@null("wrong_value")
def echo(op: Op) -> Function:
    """The first argument's values, as many as there is room for; what should be written is left as it is."""

    def run(**call: Any) -> Any:
        source = arrays(call)[0].astype(np.float64).reshape(-1)
        source = source if source.size else np.zeros(1)
        with np.errstate(invalid="ignore"):
            made = [of(np.resize(source, s).astype(d).reshape(s)) for s, d in op.signature.shapes(op.validate(call))]
        return as_returned(made)

    return run
