"""`vtcore bench-op OP --provider P`: how fast one kernel is, with new inputs for each call and its timed results checked."""

from __future__ import annotations

import argparse
import itertools
import json
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtcore.cli import options

if TYPE_CHECKING:
    from vtcore.op import Call, Op

EXAMPLE = "vtcore bench-op linear --provider portable --against reference --shape T=1,N=4096,K=4096 --dtype Q8_0"


def add(commands: Any) -> None:
    """Define the command."""
    parser = commands.add_parser("bench-op", help="measure how fast one kernel is", description=__doc__, epilog=f"example: {EXAMPLE}")
    parser.add_argument("op", metavar="OP", help="the op's name; `vtcore ops` lists them")
    parser.add_argument("--provider", metavar="P", required=True, help="a built-in name, an entry point of vtcore.providers, or ./file.py")
    parser.add_argument("--against", metavar="Q", action="append", default=[], help="another provider, timed in turns (may be repeated)")
    what = parser.add_argument_group("which call: one of")
    what.add_argument("--shape", metavar="A=N,...", help="sizes of the axes in the op's signature; T is the rows of `...`")
    what.add_argument("--sample", type=whole, metavar="N", help="the op's N-th sample, as `vtcore check` numbers them")
    what.add_argument("--case", type=Path, metavar="FILE", help="a case that `vtcore run --capture` or `vtcore check` saved")
    parser.add_argument("--dtype", metavar="D", help="with --shape: f32, f16, bf16 or a block format, of weights or (without any) of all")
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="with --shape: a number, such as eps=1e-5")
    parser.add_argument("--with", dest="also", metavar="A,B", help="with --shape: optional arrays that are to be there, such as bias")
    parser.add_argument("--threads", type=options.positive, metavar="N", help="threads to compute with (default: all that it may use)")
    parser.add_argument("--quick", action="store_true", help="fewer calls")
    parser.add_argument("--json", action="store_true", help="print one object instead of a table")
    options.debug(parser)
    parser.set_defaults(command=main)


def main(args: argparse.Namespace) -> int:
    """Time, check, print; 1 if a timed result was wrong."""
    from vtcore.bench.op_bench import bench
    from vtcore.bench.op_show import show
    from vtcore.bench.op_timing import Effort
    from vtcore.bench.roofline import roofline
    from vtcore.conformance.check import wanted
    from vtcore.providers import ProviderOptions, find

    (op,) = wanted([args.op])
    call = _call(args, op)
    with ExitStack() as stack:
        providers = [find(name, ProviderOptions(threads=args.threads)) for name in (args.provider, *args.against)]
        for provider in providers:
            stack.callback(provider.close)
        effort = Effort(rounds=3, seconds=0.05, judging=1.0) if args.quick else Effort()
        result = bench(op, call, providers, effort, partial(roofline, args.threads, passes=3 if args.quick else 10))
    print(json.dumps(result.json(), indent=1) if args.json else "\n".join(show(result)))
    return int(result.wrong)


def whole(text: str) -> int:
    """A whole number from 0."""
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0")
    return int(text)


def _call(args: argparse.Namespace, op: Op) -> Call:
    """The call that is timed. Refuses what would have no effect."""
    from vtcore.errors import ArgumentError

    if sum(v is not None for v in (args.shape, args.sample, args.case)) != 1:
        raise ArgumentError("give one of --shape, --sample and --case: it says which call is timed")
    if args.shape is not None:
        return _shaped(args, op)
    if args.dtype or args.set or args.also:
        raise ArgumentError("--dtype, --set and --with belong to --shape: a sample and a case are as they are")
    return _sample(op, args.sample) if args.case is None else _saved(op, args.case)


def _shaped(args: argparse.Namespace, op: Op) -> Call:
    from vtcore.bench.op_calls import shaped

    also = [] if args.also is None else [name.strip() for name in args.also.split(",")]
    call = shaped(op, _sizes(args.shape), args.dtype or "f32", dict(map(_setting, args.set)), also)
    op.validate(call)
    return call


def _sample(op: Op, number: int) -> Call:
    from vtcore.conformance.case import cases
    from vtcore.errors import ArgumentError

    found = next(itertools.islice(cases(op), number, None), None)
    if found is None:
        raise ArgumentError(f"{op.name} has no sample {number}; it has {sum(1 for _ in cases(op))}, numbered from 0")
    return found.call


def _saved(op: Op, path: Path) -> Call:
    from vtcore.conformance.saved import load
    from vtcore.errors import ArgumentError

    case = load(path)
    if case.op is not op:
        raise ArgumentError(f"{path} is a call of {case.op.name}, not of {op.name}")
    return case.call


def _sizes(text: str) -> dict[str, int]:
    from vtcore.errors import ArgumentError

    sizes: dict[str, int] = {}
    for part in text.split(","):
        name, _, size = part.strip().partition("=")
        if not size.isascii() or not size.isdigit() or len(size) > 9 or not name or name in sizes:
            raise ArgumentError(f"--shape holds {part!r}; write NAME=NUMBER, such as T=128,N=4096,K=4096, and each name once")
        sizes[name] = int(size)
    return sizes


def _setting(text: str) -> tuple[str, Any]:
    """NAME=VALUE: a JSON value, or else a word."""
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
