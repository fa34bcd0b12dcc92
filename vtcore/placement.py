"""Which op of a model would run where, found by a forward in which every guard is asked and nothing is computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from vtcore.assembly import page_order
from vtcore.formats.checkpoint import Checkpoint
from vtcore.kvcache.cache import Cache, Group, State
from vtcore.memory import HOST, Memory
from vtcore.models.batch import Batch
from vtcore.models.decoder import Decoder
from vtcore.models.weights import Outlines
from vtcore.op import RUNNER, Call, Op
from vtcore.provider import Attempt, Decline, Provider
from vtcore.providers.null import Null
from vtcore.report import Report
from vtcore.storage import Storage
from vtcore.tensor import Inputs, Tensor

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
        self.copies: Counter[tuple[str, str]] = Counter()
        self.bytes: Counter[tuple[str, str]] = Counter()
        self._places: WeakKeyDictionary[Storage, set[Memory]] = WeakKeyDictionary()  # where a storage's bytes would be true
        self._numbers: Storage | None = None  # of the step, which go up in any case: the host writes the next ones meanwhile
        self._models: list[tuple[Decoder, Cache]] = []  # with their weights and caches, which stay where they were brought

    def forward(self, model: Decoder, tokens: int) -> None:
        """One forward of a request with so many tokens. The model's weights may be outlines."""
        cache = next((c for m, c in self._models if m is model), None)
        if cache is None:
            cache = Cache(model.specs(), 2 + tokens // PAGE, PAGE, layout=partial(page_order, self.providers))
            self._models.append((model, cache))
        token, batch = RUNNER.set(self._run), _batch(cache, tokens)
        self._numbers = batch.tokens.storage
        try:
            model(batch, cache)
        finally:
            RUNNER.reset(token)

    def report(self) -> Report:
        """What would run where, every decline, and what would be copied between memories; how long that takes isn't known."""
        return Report.of(self.ran, self.declines, self.copies, self.bytes, dict.fromkeys(self.bytes, 0.0))

    def _run(self, op: Op, call: Call) -> Any:
        name, memory = self._where(op, call)
        self.ran[op.name, name] += 1
        for value in call.values():
            for tensor in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(tensor, Tensor):
                    self._bring(op, tensor, memory)
        for written in op.writes:
            if call[written] is not None:
                self._places[call[written].storage] = {memory}
        run: Any = self._null.accept(op, call)
        out = run(**call)
        for made in out if isinstance(out, tuple) else (out,):
            if made is not None:
                self._places[made.storage] = {memory}
        return out

    def _bring(self, op: Op, tensor: Tensor, memory: Memory) -> None:
        """Note a copy where the bytes aren't true yet. Pages that nobody has written are zeros everywhere; of others the host's are."""
        storage, cached = tensor.storage, tensor.storage.rows > 1
        places = self._places.setdefault(storage, {memory} if cached else {HOST})
        if memory not in places:
            source = next(iter(places))
            way = op.name, f"{source.name}->{memory.name}"
            self.copies[way] += 1
            shared = (source.shares or memory.shares) and storage is not self._numbers
            self.bytes[way] += 0 if shared else tensor.nbytes if cached else max(storage.nbytes, tensor.nbytes)
            places.add(memory)

    def _where(self, op: Op, call: Call) -> tuple[str, Memory]:
        for provider in self.providers:
            chosen = provider.accept(op, call)
            refused = chosen if isinstance(chosen, Decline) else chosen.passed if isinstance(chosen, Attempt) else None
            if refused is not None:
                self.declines[refused] += 1
            if refused is not chosen:
                return provider.name, provider.memory
        return REFERENCE, HOST


def _batch(cache: Cache, tokens: int) -> Batch:
    """One request of T tokens; of the numbers, which go up together as those of a step do, only their shapes matter."""
    shapes = {"tokens": tokens, "positions": tokens, "starts": 2, "lengths": 1, "rows": 1, "prompts": 1}
    arrays = {name: np.zeros(n, np.int32) for name, n in shapes.items()}
    for name, rule in cache.groups.items():
        arrays[f"{name} table"] = np.zeros((1, 1 if isinstance(rule, State) else _power(1 + tokens // PAGE)), np.int32)
        arrays[f"{name} slots"] = np.zeros(tokens, np.int32)
    t = Inputs(arrays).tensors
    groups = {name: Group(t[f"{name} table"], t[f"{name} slots"]) for name in cache.groups}
    return Batch(t["tokens"], t["positions"], t["starts"], t["lengths"], t["positions"], t["rows"], groups)


def _power(n: int) -> int:
    """A power of two, as tables are filled up to."""
    return 1 << (n - 1).bit_length()
