"""`vtcore bench MODEL`: prefill, decode, first token, memory, bandwidth, Python's share and each op's, as a table or as JSON."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from typing import Any

from vtcore.cli import options


def add(commands: Any) -> None:
    """Define the command."""
    parser = commands.add_parser("bench", help="measure how fast a model runs here", description=__doc__)
    options.model(parser)
    options.computing(parser)
    for name in ("block_size", "max_num_batched_tokens"):
        parser.add_argument("--" + name.replace("_", "-"), type=options.positive, metavar="N", help=options.NUMBERS[name])
    parser.add_argument("--only", metavar="A,B", help="of prefill, decode, first-token, memory, bandwidth, overhead, ops (default: all)")
    parser.add_argument("--scenario", metavar="NAME", help="in place of these, one of cascade, shared-prefix, lpm, concurrent")
    parser.add_argument("--quick", action="store_true", help="one short run of each instead of several")
    parser.add_argument("--json", action="store_true", help="print one object instead of tables")
    options.debug(parser)
    parser.set_defaults(command=main)


def main(args: argparse.Namespace) -> None:
    """Fetch the model if need be, measure, print."""
    from vtcore.bench.run import Choice, run
    from vtcore.bench.show import line, show
    from vtcore.bench.suite import SECTIONS
    from vtcore.catalogue import resolve
    from vtcore.cli import session
    from vtcore.cli.progress import bar

    only = SECTIONS if args.only is None else (part.strip() for part in args.only.split(","))
    names = ("numerics", "providers", "threads", "quick", "block_size", "max_num_batched_tokens", "scenario")
    more = ("dtype", "kv_cache_dtype", "memory_limit")
    choice = Choice(args.model, only=tuple(only), **{n: getattr(args, n) for n in (*names, *more)})
    with bar() as progress:
        choice = replace(choice, model=str(resolve(args.model, progress)))
    result = run(choice, lambda figure: session.note(line(figure)))
    if args.json:
        print(json.dumps(result.json(), indent=1))
    else:
        show(result)
