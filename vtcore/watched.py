"""Looking on: for as long as somebody wants to see what a dispatcher does, a method of it is another one. Else nothing is paid."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from vtcore.dispatch import Dispatcher
from vtcore.engine import Engine

Method = Callable[..., Any]


@contextmanager
def wrapped(owner: object, **wrappers: Callable[[Method], Method]) -> Iterator[None]:
    """While open, each named method of one object is what its wrapper makes of it; of nested ones the innermost is called first.

    `with` blocks of a Dispatcher that are open already go on with the methods that they began with."""
    members, before = vars(owner), {n: vars(owner)[n] for n in wrappers if n in vars(owner)}
    members.update({name: wrap(getattr(owner, name)) for name, wrap in wrappers.items()})
    try:
        yield
    finally:
        for name in wrappers:
            del members[name]
        members.update(before)


def dispatcher_of(engine: Engine) -> Dispatcher:
    """The dispatcher behind an engine, under whatever rounds."""
    return engine.forward if isinstance(engine.forward, Dispatcher) else engine.forward.dispatcher
