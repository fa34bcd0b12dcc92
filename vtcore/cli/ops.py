"""`vtcore ops [NAME]`: every op; or one op's maths, signature, tolerance, samples, and which providers have it."""

from __future__ import annotations

import argparse
import inspect
import itertools
from typing import TYPE_CHECKING, Any

from vtcore.cli import options

if TYPE_CHECKING:
    from vtcore.op import Op
    from vtcore.provider import Provider

FIRST_COLUMN = 22


def add(commands: Any) -> None:
    """Define the command."""
    parser = commands.add_parser("ops", help="list the ops, or explain one", description=__doc__)
    parser.add_argument("name", metavar="NAME", nargs="?", help="explain this op")
    parser.add_argument("--providers", metavar="A,B", help="look at these instead of all that are found")
    options.debug(parser)
    parser.set_defaults(command=main)


def main(args: argparse.Namespace) -> None:
    """Print the list, or one op."""
    import vtcore.ops  # noqa: F401  (fills the registry)
    from vtcore.errors import ArgumentError, nearest
    from vtcore.op import REGISTRY

    if args.name is not None and args.name not in REGISTRY:
        raise ArgumentError(f"there is no op {args.name!r}{nearest(args.name, REGISTRY)}; there are {', '.join(sorted(REGISTRY))}")
    providers = found_providers(args.providers)
    try:
        if args.name is not None:
            _explain(REGISTRY[args.name], providers)
        else:
            for name in sorted(REGISTRY):
                _line(REGISTRY[name], providers)
    finally:
        for provider in providers:
            provider.close()


def found_providers(wanted: str | None = None) -> list[Provider]:
    """Those named, which must work; else all that do, besides those that run everything (reference) or nothing (null)."""
    from vtcore.errors import ProviderError
    from vtcore.providers import find, names

    if wanted is not None:
        return [find(name.strip()) for name in wanted.split(",")]
    found = []
    for name in names():
        if name not in ("reference", "null"):
            try:
                found.append(find(name))
            except ProviderError:  # doctor says why
                continue
    return found


def _line(op: Op, providers: list[Provider]) -> None:
    have = [p.name for p in providers if op.name in p.kernels]
    print(f"{op.name:{FIRST_COLUMN}s} {', '.join([*have, 'reference']):24s} {_maths(op).splitlines()[0]}")


def _maths(op: Op) -> str:
    return inspect.cleandoc(op.reference.__doc__ or "(no description)")


def _explain(op: Op, providers: list[Provider]) -> None:
    parameters = (name if default is inspect.Parameter.empty else f"{name}={default}" for name, default in op.parameters.items())
    print(f"{op.name}({', '.join(parameters)})\n\n{_maths(op)}\n")
    tolerance = ", ".join(f"{dtype} {bound:g}" for dtype, bound in op.tolerance.rtol.items())
    _row("signature", op.signature.text)
    _row("definition", op.reference.__module__)
    _row("writes", ", ".join(op.writes) or "nothing: its results are fresh")
    _row("tolerance", f"{tolerance} of a row's largest value")
    _row("", op.tolerance.source)
    _row("samples", _samples(op))
    for provider in providers:
        _row(provider.name, _has(provider, op))
    _row("reference", "yes: the definition itself")


def _row(name: str, text: str) -> None:
    print(f"  {name:12s} {text}")


def _samples(op: Op) -> str:
    import numpy as np

    shown = 1000
    count = sum(1 for _ in itertools.islice(op.samples(np.random.default_rng(0)), shown))
    return f"{count}{' or more' if count == shown else ''} calls, and {sum(1 for _ in op.errors())} that must be refused"


def _has(provider: Provider, op: Op) -> str:
    kernel = provider.kernels.get(op.name)
    if kernel is None:
        return "no kernel: the call falls back to the next provider"
    return f"yes: {kernel.function.__module__}" + (", some calls declined with a reason" if kernel.guard else "")
