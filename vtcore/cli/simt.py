"""`vtcore simt KERNEL NAME=VALUE...`: run a CUDA, Metal or OpenCL kernel on the processor, and find what a device would hide."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtcore.cli import options

if TYPE_CHECKING:
    from vtcore.simt.run import Verdict
    from vtcore.simt.signature import Signature
    from vtcore.simt.trial import Launch
    from vtcore.simt.values import Given

GROUP = 64


def add(commands: Any) -> None:
    """Define the command."""
    parser = commands.add_parser("simt", help="run a CUDA, Metal or OpenCL kernel on the processor", description=__doc__)
    parser.add_argument("file", metavar="KERNEL", type=Path, help="a text: .cu, .metal or .cl")
    parser.add_argument(
        "values", metavar="NAME=VALUE", nargs="*", help="a parameter: x=file.npy, x=random:4x8, y=zeros:4, y=empty:4; n=4; shared=BYTES"
    )
    launch = parser.add_argument_group("launch")
    launch.add_argument("--kernel", metavar="NAME", help="which one, where the text holds several")
    launch.add_argument("--group", type=sizes, metavar="X[,Y,Z]", help=f"work items of a group (default: as the text says, else {GROUP})")
    launch.add_argument("--groups", type=sizes, default=(1, 1, 1), metavar="X[,Y,Z]", help="groups (default 1)")
    launch.add_argument("--subgroup", type=options.positive, default=32, metavar="N", help="work items of a subgroup (default 32)")
    how = parser.add_argument_group("how")
    how.add_argument("--orders", type=options.positive, default=3, metavar="N", help="random orders to try (default 3)")
    how.add_argument("--seed", type=options.whole, default=0, metavar="N", help="of random inputs and orders (default 0)")
    how.add_argument("--timeout", type=options.number, default=60.0, metavar="SECONDS", help="for all runs together (default 60)")
    report = parser.add_argument_group("report")
    report.add_argument(
        "--out", action="append", default=[], metavar="NAME=FILE", help="write a buffer, as it is afterwards, to an .npy file"
    )
    report.add_argument("--expect", action="append", default=[], metavar="NAME=FILE", help="hold a buffer against an .npy file")
    report.add_argument("--tolerance", type=options.number, metavar="R", help="of --expect, relative to the largest value (default 1e-5)")
    report.add_argument("--save", type=Path, metavar="DIR", help="keep the inputs of a kernel that failed there, as .npy files")
    report.add_argument("--json", action="store_true", help="print one object")
    options.debug(parser)
    parser.set_defaults(command=main)


def main(args: argparse.Namespace) -> int:
    """Run, report; 1 if anything was found."""
    from vtcore.errors import ArgumentError
    from vtcore.simt.expected import against, pairs, written
    from vtcore.simt.run import chosen, run, text
    from vtcore.simt.values import given

    if args.tolerance is not None and not args.expect:
        raise ArgumentError("--tolerance is of --expect: name what is expected, or leave it away")
    source = text(args.file)
    kernel = chosen(source, args.kernel)
    names = [p.name for p in kernel.buffers]
    expected, out = pairs(args.expect, names), pairs(args.out, names)
    values = given(kernel, args.values, args.seed)
    verdict = run(source, kernel, _launch(args, kernel), values, args.timeout)
    against(verdict.result, expected, 1e-5 if args.tolerance is None else args.tolerance)
    written(verdict.result, out)
    saved = _saved(args.save, values) if verdict.failed and args.save else []
    print(json.dumps(_object(verdict)) if args.json else "\n".join(_lines(verdict, saved)))
    return int(verdict.failed)


def _launch(args: argparse.Namespace, kernel: Signature) -> Launch:
    from vtcore.errors import ArgumentError
    from vtcore.simt.trial import Launch

    x, y, z = (*(kernel.group or (GROUP,)), 1, 1)[:3]
    size: tuple[int, int, int] = args.group or (x, y, z)
    if size[0] * size[1] * size[2] > 1024:
        raise ArgumentError(f"a group has {size[0] * size[1] * size[2]} work items; devices take at most 1024")
    if args.subgroup > 1024 or args.groups[0] * args.groups[1] * args.groups[2] > 1 << 24:
        raise ArgumentError("a subgroup has at most 1024 work items, and a launch at most 2^24 groups")
    return Launch(args.groups, size, args.subgroup, args.orders, args.seed)


def _lines(verdict: Verdict, saved: list[str]) -> list[str]:
    launch, result = verdict.launch, verdict.result
    sizes = ["x".join(map(str, s[: 3 if s[2] > 1 else 2 if s[1] > 1 else 1])) for s in (launch.grid, launch.size)]
    shared = f", {verdict.shared:,} bytes shared" if result.runs else ""
    head = f"{verdict.kernel}: groups {sizes[0]}, work items of each {sizes[1]}{shared}; {verdict.compiler}"
    lines = [head, *(f"note: {n}" for n in result.notes), *(f"{f.kind}: {f.text}" for f in result.findings)]
    lines += [f"inputs: {' '.join(saved)}"] if saved else []
    return [
        *lines,
        f"{verdict.kernel}: {'failed' if verdict.failed else 'passed'} in {result.runs} runs on this processor; no device took part",
    ]


def _object(verdict: Verdict) -> dict[str, Any]:
    findings = [{"kind": f.kind, "text": f.text} for f in verdict.result.findings]
    launch = {"groups": verdict.launch.grid, "group": verdict.launch.size, "subgroup": verdict.launch.subgroup, "seed": verdict.launch.seed}
    about = {"kernel": verdict.kernel, "compiler": verdict.compiler, "shared_bytes": verdict.shared, "runs": verdict.result.runs}
    return {**about, **launch, "failed": verdict.failed, "findings": findings, "notes": verdict.result.notes}


def _saved(directory: Path, values: Given) -> list[str]:
    from vtcore.simt.expected import save

    directory.mkdir(parents=True, exist_ok=True)
    return [f"{name}={save(directory / f'{name}.npy', array)}" for name, array in values.arrays.items()]


def sizes(text: str) -> tuple[int, int, int]:
    """Such as 64 or 8,8."""
    parts = text.split(",")
    if len(parts) > 3 or not all(p.isascii() and p.isdigit() and 0 < int(p[:10]) < 1 << 24 for p in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not one to three numbers over 0, such as 64 or 8,8")
    x, y, z = (*map(int, parts), 1, 1)[:3]
    return x, y, z
