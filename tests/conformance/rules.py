"""What stands between a model and its ops in the tests of the rules: each is a runner of ops, to be set inside a dispatcher."""

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vtcore.dispatch import Dispatcher
from vtcore.op import RUNNER, Call, Op
from vtcore.tensor import Tensor


@contextmanager
def running(run):
    """Inside it, every op goes to `run(op, call)`. An engine for the Runner."""
    token = RUNNER.set(run)
    try:
        yield
    finally:
        RUNNER.reset(token)


class Engine:
    """A runner of ops as the context manager that the conformance Runner enters for each forward."""

    def __init__(self) -> None:
        self._open: list[Any] = []

    def run(self, op: Op, call: Call) -> Any:
        raise NotImplementedError(f"{type(self).__name__} doesn't define run")

    def __enter__(self) -> "Engine":
        self._open.append(running(self.run))
        self._open[-1].__enter__()
        return self

    def __exit__(self, *problem: object) -> None:
        self._open.pop().__exit__(*problem)


def define(op: Op, call: Call) -> Any:
    """Run an op's definition on Tensors."""
    return Dispatcher().run(op, call)


class Opaque(Engine):
    """Outside of ops no Tensor gives its values away, and only views are made of it."""

    HIDDEN = ("numpy", "bare", "address", "transpose")

    def __init__(self, monkeypatch: Any) -> None:
        super().__init__()
        self.inside = True
        for name in self.HIDDEN:
            monkeypatch.setattr(Tensor, name, self._guarded(name, Tensor.__dict__[name]))
        monkeypatch.setattr(Tensor, "__getitem__", self._views(Tensor.__getitem__))

    def _guarded(self, name: str, kept: Any) -> Any:
        def read(tensor: Tensor, *args: Any, **options: Any) -> Any:
            assert self.inside, f"a model used Tensor.{name}"
            return kept.fget(tensor) if isinstance(kept, property) else kept(tensor, *args, **options)

        return property(read) if isinstance(kept, property) else read

    def _views(self, kept: Any) -> Any:
        def get(tensor: Tensor, key: Any) -> Tensor:
            parts = key if isinstance(key, tuple) else (key,)
            assert all(p is None or p is Ellipsis or isinstance(p, (int, slice)) for p in parts), f"not a view: {key}"
            return kept(tensor, key)

        return get

    def run(self, op: Op, call: Call) -> Any:
        self.inside = True
        try:
            return define(op, call)
        finally:
            self.inside = False

    def __enter__(self) -> "Opaque":
        self.inside = False
        super().__enter__()
        return self

    def __exit__(self, *problem: object) -> None:
        super().__exit__(*problem)
        self.inside = True


class Trace(Engine):
    """Every op with the shapes, dtypes and numbers of its arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def run(self, op: Op, call: Call) -> Any:
        self.seen.append((op.name, {name: shape_of(value) for name, value in call.items()}))
        return define(op, call)


def shape_of(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.shape, str(value.dtype)
    return [shape_of(v) for v in value] if isinstance(value, (tuple, list)) else value


@dataclass
class Capture(Engine):
    """The ops of one forward as a list, with which of their arguments came out of which; `replay` runs the list without the model."""

    calls: list[tuple[Op, Call, list[Tensor]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def run(self, op: Op, call: Call) -> Any:
        out = define(op, call)
        self.calls.append((op, call, tensors_in(out)))
        return out

    def replay(self) -> dict[Any, Any]:
        """Storages of the captured results -> those of this time. Inputs, weights and caches are read where they lie."""
        now: dict[Any, Any] = {}
        for op, call, captured in self.calls:
            out = define(op, {name: moved(value, now) for name, value in call.items()})
            now.update({old.storage: new.storage for old, new in zip(captured, tensors_in(out), strict=True)})
        return now


def tensors_in(value: Any) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else list(value) if isinstance(value, tuple) else []


def moved(value: Any, now: dict[Any, Any]) -> Any:
    """The same view of this time's storage."""
    if isinstance(value, Tensor):
        return Tensor(now.get(value.storage, value.storage), value.shape, value.dtype, value.strides, value.offset)
    return type(value)(moved(v, now) for v in value) if isinstance(value, (tuple, list)) else value


class Poison(Engine):
    """Rows that an op doesn't say it touches hold NaN while it runs, and must still do so afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.poisoned = 0

    def run(self, op: Op, call: Call) -> Any:
        hidden = []
        for name, which in op.touches.items():
            if call[name] is None:
                continue
            array, rows = call[name].numpy(), which(**{n: v.numpy() if isinstance(v, Tensor) else v for n, v in call.items()})
            assert rows is not None, f"{op.name} doesn't say which rows of {name} it touches"
            others = np.setdiff1d(np.arange(len(array)), rows)
            hidden.append((array, others, array[others]))
            array[others] = np.nan
            self.poisoned += len(others)
        out = define(op, call)
        for array, others, _ in hidden:
            assert np.isnan(array[others].astype(np.float32)).all(), f"{op.name} wrote into rows that it doesn't say it touches"
        for array, others, values in reversed(hidden):  # of two views of one array, the second found NaN
            array[others] = values
        return out
