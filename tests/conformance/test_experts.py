"""A mixture reads the experts that tokens are sent to, and no others: with NaN in all the rest, not a bit changes."""

import numpy as np
import pytest

from tests.conformance.gated import EXACT, name_of
from tests.conformance.rules import Engine
from tests.conformance.test_rules import assert_same_bits
from vtcore.conformance.gate import load
from vtcore.conformance.runner import Request, Runner
from vtcore.dispatch import Dispatcher
from vtcore.providers import chain
from vtcore.tensor import Tensor, of

WEIGHTS = ("gate", "up", "down", "gate_bias", "up_bias", "down_bias")


class Routed(Engine):
    """What nobody asked for holds NaN, and no copy that a provider made of it before is left."""

    def __init__(self, providers):
        super().__init__()
        self.dispatcher, self.spared, self.calls = Dispatcher(providers), 0, 0

    def run(self, op, call):
        if op.name == "experts":
            chosen = set(np.unique(call["ids"].numpy()).tolist())
            self.spared += len(call["up"]) - len(chosen) if isinstance(call["up"], (list, tuple)) else call["up"].shape[0] - len(chosen)
            self.calls += 1
            call = {**call, **{n: poisoned(call[n], chosen) for n in WEIGHTS if call[n] is not None}}
        return self.dispatcher.run(op, call)


def poisoned(stack, chosen):
    if isinstance(stack, Tensor):
        values = np.array(stack.numpy())
        values[[e for e in range(len(values)) if e not in chosen]] = np.nan
        return of(values)
    return tuple(of(m.numpy().copy() if e in chosen else np.full_like(m.numpy(), np.nan)) for e, m in enumerate(stack))


def mixes(golden):
    return any("experts" in t.name for t in golden.tensors())


@pytest.mark.parametrize("providers", ["reference", "portable"])
@pytest.mark.parametrize("golden", [g for g in EXACT if mixes(g)], ids=name_of)
def test_experts_that_no_token_is_sent_to_are_not_read(golden, providers):
    model, runs = load(golden), []
    engines = [Dispatcher(chain(providers)), Routed(chain(providers))]
    for engine in engines:
        request = Request(golden.cases[1].prompt, 4)
        Runner(model, engine, 10**9).run([request])
        runs.append(request)
    assert engines[1].calls
    assert engines[1].spared
    assert_same_bits(runs[:1], runs[1:])
