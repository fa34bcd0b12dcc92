"""`vtcore flashinfer list | import | export`: definitions, workloads and traces in the format of FlashInfer Trace."""

from __future__ import annotations

import argparse
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtcore.cli import options

if TYPE_CHECKING:
    from vtcore.conformance.case import Case
    from vtcore.conformance.flashinfer.export import Exported
    from vtcore.conformance.flashinfer.load import TraceSet
    from vtcore.conformance.flashinfer.schema import Json

PER_DEFINITION, PER_OP = 3, 5


def add(commands: Any) -> None:
    """Define the command."""
    parser = commands.add_parser("flashinfer", help="read and write FlashInfer Trace", description=__doc__)
    parts = parser.add_subparsers(title="what to do", metavar="DO", required=True)
    shown = parts.add_parser("list", help="which definitions mean an op here, and why others don't")
    shown.add_argument("directory", metavar="DIR", type=Path, help="a directory of FlashInfer Trace")
    shown.set_defaults(command=_list)
    taken = parts.add_parser("import", help="workloads as cases for `vtcore check P --cases`")
    taken.add_argument("directory", metavar="DIR", type=Path, help="a directory of FlashInfer Trace")
    taken.add_argument("cases", metavar="CASES", type=Path, help="a new directory for the .npz files")
    taken.add_argument("--most", type=options.positive, default=PER_DEFINITION, metavar="N", help="workloads of a definition (default 3)")
    taken.set_defaults(command=_import)
    given = parts.add_parser("export", help="ops, cases and results as definitions, workloads and traces")
    given.add_argument("directory", metavar="DIR", type=Path, help="a new directory of FlashInfer Trace")
    given.add_argument("--cases", metavar="PATH", type=Path, help="captured calls instead of the ops' samples")
    given.add_argument("--provider", metavar="P", help="run the cases on it, and write what came of it as traces")
    given.set_defaults(command=_export)
    for part in (parser, shown, taken, given):
        options.debug(part)


def _list(args: argparse.Namespace) -> None:
    from vtcore.conformance.flashinfer.load import TraceSet
    from vtcore.conformance.flashinfer.meaning import understand

    found = TraceSet(args.directory)
    for name, definition in found.definitions.items():
        known = understand(definition)
        print(f"{name:52s} {'no: ' + known if isinstance(known, str) else known.op.name}")
    _say(found)


def _import(args: argparse.Namespace) -> None:
    from vtcore.conformance.flashinfer.export import check_vacant
    from vtcore.conformance.flashinfer.load import TraceSet
    from vtcore.conformance.saved import save

    found = TraceSet(args.directory)
    check_vacant(args.cases)
    args.cases.mkdir(parents=True, exist_ok=True)
    count = 0
    for name, case in found.cases(args.most):
        save(case, args.cases / f"{count:05}-{name}.npz", {"flashinfer": name})
        count += 1
    _say(found)
    print(f"{count} cases of {len(found.definitions)} definitions in {args.cases}; `vtcore check PROVIDER --cases {args.cases}` runs them")


def _say(found: TraceSet) -> None:
    from vtcore.cli import session

    for problem in found.problems:
        session.note(problem)
    for reason, count in found.skipped.most_common():
        session.note(f"{count} workload{'s' * (count > 1)} left out: {reason}")


def _export(args: argparse.Namespace) -> None:
    from vtcore.cli import session
    from vtcore.conformance.flashinfer.export import check_vacant, write

    check_vacant(args.directory)
    cases, refused = _expressed(_cases(args.cases))
    traces = [] if args.provider is None else _traces(args.provider, cases)
    write(args.directory, [exported for _, exported in cases], traces)
    for reason, count in refused.most_common():
        session.note(f"{count} cases left out: {reason}")
    names = {exported.definition["name"] for _, exported in cases}
    print(f"{len(names)} definitions, {len(cases)} workloads and {len(traces)} traces in {args.directory}")


def _expressed(cases: list[Case]) -> tuple[list[tuple[Case, Exported]], Counter[str]]:
    """Cases in the format, and why others can't be."""
    from vtcore.conformance.flashinfer.export import Inexpressible, export

    made, refused = [], Counter[str]()
    for case in cases:
        try:
            made.append((case, export(case)))
        except Inexpressible as why:
            refused[str(why)] += 1
    return made, refused


def _traces(name: str, cases: list[tuple[Case, Exported]]) -> list[Json]:
    from vtcore.conformance.flashinfer.results import trace
    from vtcore.providers import find

    provider = find(name)
    with closing(provider):
        return [made for case, exported in cases if (made := trace(provider, case, exported)) is not None]


def _cases(path: Path | None) -> list[Case]:
    """Those of a path; without one the first samples of each op."""
    from itertools import islice

    from vtcore.conformance.case import cases
    from vtcore.conformance.check import wanted
    from vtcore.conformance.saved import load_all

    return [c for op in wanted(None) for c in islice(cases(op), PER_OP)] if path is None else list(load_all(path))
