"""vtcore against other engines: the same model, the same cases, in turns within one run, as ratios.

python tools/make_bench_models.py MODELS                            make the models once
python tools/bench_peers.py --models MODELS                         the table of docs/performance.md; every engine that is installed
python tools/bench_peers.py --models MODELS --only q8_0,q4_0        some of its models
python tools/bench_peers.py --model FILE --numerics fast            any other model
python tools/bench_peers.py --models MODELS --llama-python PATH     llama-cpp-python is installed for another Python

Nothing else should run on the machine. llama-cpp-python must be built for it, not for any: CMAKE_ARGS=-DGGML_NATIVE=ON."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from peers import report
from peers.fresh import fresh
from peers.groups import GROUPS, Group, of_one_model
from peers.paired import Found, Named, Plan, side_by_side

from vtcore.catalogue import CATALOGUE, resolve

PEERS = ("llama", "transformers", "vllm")


def parser() -> argparse.ArgumentParser:
    """The options."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    which = p.add_mutually_exclusive_group(required=True)
    which.add_argument("--models", type=Path, metavar="DIRECTORY", help="where make_bench_models.py has put them")
    which.add_argument("--model", metavar="FILE", help="a .gguf file or a directory with safetensors")
    p.add_argument("--only", metavar="A,B", help=f"with --models: of {', '.join(g.key for g in GROUPS)}")
    p.add_argument("--numerics", choices=["exact", "fast"], help="with --model: vtcore's (default exact)")
    for peer in PEERS:
        p.add_argument(f"--{peer}-python", metavar="PATH", help=f"the Python that {peer} is installed for (default: this one)")
    p.add_argument("--threads", type=positive, default=2, metavar="N")
    p.add_argument("--rounds", type=positive, default=7, metavar="N")
    p.add_argument("--steps", type=positive, default=32, metavar="N", help="of decode, in a round")
    shown = p.add_mutually_exclusive_group()
    shown.add_argument("--markdown", action="store_true", help="print the table for docs/performance.md")
    shown.add_argument("--json", action="store_true", help="print all rounds as one object")
    return p


def positive(text: str) -> int:
    """A whole number from 1."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def chosen(p: argparse.ArgumentParser, args: argparse.Namespace) -> list[Group]:
    """The groups to run. Options that would do nothing end the program."""
    if args.model is not None:
        if args.only is not None:
            p.error("--only chooses of the models of --models; with --model there is one")
        return [of_one_model(args.model, args.numerics or "exact")]
    if args.numerics is not None:
        p.error("--numerics goes with --model; each model of --models has its own")
    keys = [g.key for g in GROUPS] if args.only is None else args.only.split(",")
    if unknown := set(keys) - {g.key for g in GROUPS}:
        p.error(f"--only holds {', '.join(sorted(unknown))}; there are {', '.join(g.key for g in GROUPS)}")
    return [g for g in GROUPS if g.key in keys]


def pythons(p: argparse.ArgumentParser, args: argparse.Namespace, groups: Sequence[Group]) -> dict[str, str]:
    """By engine."""
    given = {peer: getattr(args, f"{peer}_python") for peer in PEERS}
    if idle := [peer for peer, path in given.items() if path and not any(peer in g.files for g in groups)]:
        p.error(f"--{idle[0]}-python does nothing: {idle[0]} runs none of these models")
    return {"vtcore": sys.executable, **{peer: path or sys.executable for peer, path in given.items()}}


def located(folder: Path | None) -> Callable[[str], str]:
    """A model's name -> its path."""
    return lambda name: str(resolve(name)) if name in CATALOGUE or folder is None else str(folder / name)


def compared(group: Group, plan: Plan, locate: Callable[[str], str]) -> Iterator[Found]:
    """All of a group; a model that isn't there is named."""
    missing = [n for n in dict.fromkeys(group.files.values()) if not Path(locate(n)).exists()]
    if missing:
        yield Named(group.title, f"there is no {missing[0]}: tools/make_bench_models.py makes it")
        return
    yield from side_by_side(group, plan, locate)
    if group.fresh:
        yield from fresh(group, plan, locate)


def main(argv: Sequence[str] | None = None) -> int:
    """Compare and print; what comes in is shown on stderr. 1 where something wanted was not reached."""
    p = parser()
    args = p.parse_args(argv)
    groups = chosen(p, args)
    plan = Plan(args.threads, args.rounds, args.steps, pythons(p, args, groups))
    facts, found = report.facts(), list[Found]()
    try:
        for group in groups:
            for one in compared(group, plan, located(args.models)):
                found.append(one)
                print(report.line(one), file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        found.append(Named("all", "interrupted here: the rest is missing"))
    form = report.as_json if args.json else report.markdown if args.markdown else report.table
    print(form(found, plan, facts))
    return int(any(getattr(f, "met", None) is False for f in found))


if __name__ == "__main__":
    sys.exit(main())
