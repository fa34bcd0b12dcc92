"""The null provider: shapes and dtypes, no arithmetic. For what must be known before, or tested without, running a model."""

from __future__ import annotations

from typing import Any

import numpy as np

from vtcore.memory import HOST
from vtcore.op import Call, Op
from vtcore.provider import Decline, Function, Provider
from vtcore.tensor import Tensor, empty


class Null(Provider):
    """Checks each call against its op's signature; what it returns has the right shape and dtype, and no meaning."""

    def accept(self, op: Op, call: Call) -> Function | Decline:
        """Always."""

        def run(**arguments: Any) -> Any:
            made = [_nothing(shape, dtype) for shape, dtype in op.signature.shapes(op.validate(arguments))]
            return None if not made else made[0] if len(made) == 1 else tuple(made)

        return run


def _nothing(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Tensor:
    return empty(HOST, shape, dtype)


provider = Null("null", facts={"runs": "nothing: results have the right shape and dtype, and no meaning"})
