"""The reference provider: every op by its own definition, on the host. It never declines, and it is never fast."""

from __future__ import annotations

from vtcore.op import Call, Op
from vtcore.provider import Decline, Function, Provider, definition


class Reference(Provider):
    """Runs each op's definition."""

    def accept(self, op: Op, call: Call) -> Function | Decline:
        """Always the definition."""
        return definition(op)


provider = Reference("reference", facts={"runs": "each op's NumPy definition"})
