"""The reference provider: every op by its own definition, on the host. It never declines, and it is never fast."""

from __future__ import annotations

from vtcore.op import Call, Op
from vtcore.provider import Decline, Function, Provider
from vtcore.tensor import bare, held


class Reference(Provider):
    """Runs each op's definition."""

    def accept(self, op: Op, call: Call) -> Function | Decline:
        """Always the definition."""
        return lambda **arguments: held(op.reference(**{n: bare(v) for n, v in arguments.items()}))


provider = Reference("reference", facts={"runs": "each op's NumPy definition"})
