"""Which op of a model would run where, found by a forward in which every guard is asked and nothing is computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from vtcore.assembly import page_order
from vtcore.formats.checkpoint import Checkpoint
from vtcore.kvcache.cache import Cache, Group, State
from vtcore.models.batch import Batch
from vtcore.models.decoder import Decoder
from vtcore.models.weights import Outlines
from vtcore.op import RUNNER, Call, Op
from vtcore.provider import Decline, Provider
from vtcore.providers.null import Null
from vtcore.report import Report
from vtcore.tensor import Tensor, of

REFERENCE = "reference"
PAGE = 16


def outlined(checkpoint: Checkpoint, model: Decoder) -> Decoder:
    """The same model over weights of which only shapes and dtypes are known, so that nothing is read."""
    return type(model)(model.config, Outlines(checkpoint.tensors, model.weights.numerics), model.dialect)


class Placement:
    """Asks the providers of a chain in order, as a dispatcher does, and goes on with a result of the right shape and no meaning."""

    def __init__(self, providers: Sequence[Provider]) -> None:
        self.providers, self._null = tuple(providers), Null("null")
        self.ran: Counter[tuple[str, str]] = Counter()
        self.declines: Counter[Decline] = Counter()

    def forward(self, model: Decoder, tokens: int) -> None:
        """One forward of a request with so many tokens. The model's weights may be outlines."""
        cache = Cache(model.specs(), 2 + tokens // PAGE, PAGE, layout=partial(page_order, self.providers))
        token = RUNNER.set(self._run)
        try:
            model(_batch(cache, tokens), cache)
        finally:
            RUNNER.reset(token)

    def report(self) -> Report:
        """What would run where, and every decline."""
        return Report.of(self.ran, self.declines, {}, {}, {})

    def _run(self, op: Op, call: Call) -> Any:
        self.ran[op.name, self._where(op, call)] += 1
        run: Any = self._null.accept(op, call)
        return run(**call)

    def _where(self, op: Op, call: Call) -> str:
        for provider in self.providers:
            chosen = provider.accept(op, call)
            if not isinstance(chosen, Decline):
                return provider.name
            self.declines[chosen] += 1
        return REFERENCE


def _batch(cache: Cache, tokens: int) -> Batch:
    """One request of T tokens; of the numbers only their shapes matter."""
    each = _zeros(tokens)
    groups = {n: Group(_zeros(1, 1 if isinstance(s, State) else 1 + tokens // PAGE), each) for n, s in cache.groups.items()}
    return Batch(each, each, _zeros(2), _zeros(1), each, _zeros(1), groups)


def _zeros(*shape: int) -> Tensor:
    return of(np.zeros(shape, np.int32))
