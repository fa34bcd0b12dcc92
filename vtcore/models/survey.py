"""One forward on the null provider before any weight is read: what the forward reads, in which shapes, and what is wrong with that."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from weakref import WeakKeyDictionary, finalize

import numpy as np

from vtcore.errors import OpError
from vtcore.kvcache.cache import Cache, Group, State
from vtcore.models.batch import Batch
from vtcore.models.config import ModelConfig
from vtcore.models.decoder import Decoder
from vtcore.models.facts import Survey, Use
from vtcore.models.layer import Layer, Named
from vtcore.models.names import Dialect
from vtcore.models.sizes import contradiction
from vtcore.models.standing import Left, Standing
from vtcore.models.weights import Param
from vtcore.op import RUNNER, Call, Op
from vtcore.ops import experts, experts_q8
from vtcore.providers.null import Null
from vtcore.storage import Storage
from vtcore.tensor import Tensor, of

TOKENS, REQUESTS = 6, 2
PARTS = ("layer", "attend", "mlp", "finish", "head")  # where a forward goes on if something in one of them is wrong


def survey(cls: type[Decoder], config: ModelConfig, weights: Standing, dialect: Dialect) -> Survey:
    """Look at a checkpoint through a model's forward."""
    look = _Look(cls, config, weights, dialect)
    look.forward()
    return Survey(
        uses=tuple(look.uses.values()),
        missing=tuple(dict.fromkeys([*weights.missing, *look.biases()])),
        read=frozenset(weights.used),
        wrong=tuple(look.wrong),
        bytes_by_format=dict(look.formats),
        largest=max(look.layers.values(), default=0),
        token_bytes=-(-look.peak // TOKENS),
        notes=tuple(weights.notes),
        whole=not look.left,
        seen=tuple(look.seen.values()),
    )


class _Look:
    """The state of one look."""

    def __init__(self, cls: type[Decoder], config: ModelConfig, weights: Standing, dialect: Dialect) -> None:
        self.weights = weights
        self.model = cls(config, self.weights, dialect, (self.hear,))
        self.held: dict[Storage, tuple[int | None, str, str]] = {}  # weights: layer, name, part
        self.weight_of: dict[Storage, Tensor] = {}
        self.seen: dict[tuple[Storage, str], tuple[Op, Tensor]] = {}
        self.sources: WeakKeyDictionary[Storage, tuple[str, ...]] = WeakKeyDictionary()  # results, the oldest first: what they came from
        self.last: tuple[str, ...] = ()  # the sources of the latest
        self.uses: dict[tuple[Any, ...], Use] = {}
        self.biased: dict[str, list[tuple[str, bool]]] = defaultdict(list)  # by the forward's name: each layer's tensor, has it a bias
        self.wrong: list[str] = []
        self.left = False
        self.live = self.peak = 0
        self.formats: Counter[str] = Counter()
        self.layers: Counter[int | None] = Counter()  # bytes of each

    def hear(self, named: Named, name: str, value: Any) -> Any:
        """Note each weight as it is read."""
        index = named.index if isinstance(named, Layer) else None
        parts = [("weight", value.weight), ("bias", value.bias)] if isinstance(value, Param) else [("", t) for t in several(value)]
        for part, t in parts:
            if isinstance(t, Tensor):
                self.held[t.storage], self.weight_of[t.storage] = (index, name, part), t
                self.formats[str(t.dtype)] += t.nbytes
                self.layers[index] += t.nbytes
        t = value.weight if isinstance(value, Param) else value
        if isinstance(t, Tensor) and (origin := self.weights.origin.get(t.storage)):
            if other := contradiction(name, t.shape, named.config):
                self.note([origin], f"the config's {other}")
            if isinstance(value, Param):
                self.biased[name].append((origin, value.bias is not None))
        return value

    def run(self, op: Op, call: Call) -> Any:
        """One op on the null provider."""
        tensors = [t for v in call.values() for t in several(v) if isinstance(t, Tensor)]
        self.uses |= {(*self.held[t.storage], op.name): Use(*self.held[t.storage], op) for t in tensors if t.storage in self.held}
        self.seen |= {(t.storage, op.name): (op, self.weight_of[t.storage]) for t in tensors if t.storage in self.held}
        own = [self.weights.origin[t.storage] for t in tensors if t.storage in self.weights.origin]
        given = {t.storage for t in tensors}
        behind = [name for storage in reversed(list(self.sources)) if storage in given for name in self.sources[storage]]
        try:
            out = NULL.accept(op, call)(**call)  # type: ignore[operator]  # it never declines
        except OpError as e:
            self.note(own or behind[:2], str(e) + (f" (given what came from {self.shown(behind[:1])})" if own and behind else ""))
            raise Left from e
        self.last = tuple(dict.fromkeys(own or behind))[:2]
        for t in out if isinstance(out, tuple) else (out,) if out is not None else ():
            self.sources[t.storage] = self.last
            self.live += t.nbytes
            finalize(t.storage, self._gone, t.nbytes)
        self.peak = max(self.peak, self.live + _inside(op, call))
        return out

    def _gone(self, nbytes: int) -> None:
        self.live -= nbytes

    def note(self, names: Iterable[str], problem: str) -> None:
        """A sentence about the tensors behind a wrong call, the nearest first."""
        self.wrong.append(f"{self.shown(names) or 'the forward'}: {problem}")

    def shown(self, names: Iterable[str]) -> str:
        """Tensors with their shapes."""
        return ", ".join(f"{n} {list(self.weights.tensors[n].shape)}" for n in dict.fromkeys(names))

    def guard(self, part: str) -> None:
        """Let the forward go on with a part's input where the part fails: it has the shape of its output."""
        method: Callable[..., Any] | None = getattr(self.model, part, None)

        def call(*args: Any) -> Any:
            peak = self.peak
            try:
                out = method(*args) if method else None
            except Left:
                self.left = True
            except OpError as e:  # of the forward itself, about what an op gave last
                self.note(self.last, str(e))
                self.left = True
            else:
                self.peak = peak if part == "head" else self.peak
                return out
            return args[0] if part in ("finish", "head") else args[1]

        if method:
            setattr(self.model, part, call)

    def forward(self) -> None:
        """Run it."""
        for part in PARTS:
            self.guard(part)
        cache = Cache(self.model.specs(), pages=2, page=4)
        token = RUNNER.set(self.run)
        try:
            self.model(tiny_batch(cache), cache)
        except Left:
            self.left = True
        finally:
            RUNNER.reset(token)

    def biases(self) -> Iterator[str]:
        """Biases that the config demands, or that other layers have, and that aren't there."""
        for name, layers in self.biased.items():
            wanted = name in self.model.config.biased or any(has for _, has in layers)
            yield from (tensor.removesuffix("weight") + "bias" for tensor, has in layers if wanted and not has)


NULL = Null("null")


def _inside(op: Op, call: Call) -> int:
    """Bytes that an op needs within itself: of experts, the rows between their products, one for each pair of token and expert."""
    if op not in (experts, experts_q8):
        return 0
    first, last = (next(iter(several(call[n]))) for n in ("up", "down"))
    return 4 * int(call["ids"].size) * (2 * int(first.shape[-2]) + int(last.shape[-2]))


def several(value: Any) -> Iterable[Any]:
    """The members of a sequence; a value alone."""
    return value if isinstance(value, (list, tuple)) else (value,)


def tiny_batch(cache: Cache) -> Batch:
    """Two requests with six tokens; the numbers mean nothing."""
    tokens, requests = _zeros(TOKENS), _zeros(REQUESTS)
    groups = {n: Group(_zeros(REQUESTS, 1 if isinstance(s, State) else 2), tokens) for n, s in cache.groups.items()}
    return Batch(tokens, tokens, _zeros(REQUESTS + 1), requests, tokens, _zeros(1), groups)


def _zeros(*shape: int) -> Tensor:
    return of(np.zeros(shape, np.int32))
