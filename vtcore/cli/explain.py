"""`vtcore explain MODEL`: what a model is, what it needs, and which op would run where, from its headers alone."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import TYPE_CHECKING, Any

from vtcore.cli import options

if TYPE_CHECKING:
    from vtcore.formats.checkpoint import Checkpoint
    from vtcore.models.decoder import Decoder
    from vtcore.options import Options
    from vtcore.provider import Provider

TOKENS = 16  # of the prompt whose forward is looked at


def add(commands: Any) -> None:
    """Define the command."""
    parser = commands.add_parser("explain", help="what a model is and needs, before loading it", description=__doc__)
    options.model(parser)
    options.engine(parser)
    options.debug(parser)
    parser.set_defaults(command=main)


def main(args: argparse.Namespace) -> None:
    """Fetch the model if need be, read its headers, print."""
    from vtcore.assembly import find_providers, survey_of
    from vtcore.catalogue import resolve
    from vtcore.cli.progress import bar
    from vtcore.formats.checkpoint import open_checkpoint
    from vtcore.models.load import load_model
    from vtcore.numerics import check_fast
    from vtcore.options import Options

    chosen = Options(**options.engine_arguments(args))
    with bar() as progress:
        checkpoint = open_checkpoint(resolve(args.model, progress))
    model = load_model(checkpoint, numerics=chosen.numerics, max_model_len=chosen.max_model_len, kv_cache_dtype=chosen.kv_cache_dtype)
    _print_model(checkpoint, model)
    _print_formats(checkpoint)
    providers = find_providers(chosen)
    try:
        check_fast(chosen.numerics, survey_of(model).bytes_by_format, providers)
        _print_memory(model, providers, chosen)
        _print_placement(checkpoint, model, providers)
    finally:
        for provider in providers:
            provider.close()


def _print_model(checkpoint: Checkpoint, model: Decoder) -> None:
    c = model.config
    print(f"model         {checkpoint.path} ({checkpoint.kind}, {len(checkpoint.files)} file{'s' * (len(checkpoint.files) > 1)})")
    print(f"architecture  {type(model).__name__}, {type(model).__module__}")
    print(f"shape         {c.layers} layers, hidden {c.hidden}, {c.heads} heads of {c.head_dim} over {c.kv_heads} of keys and values")
    print(f"context       {c.context} tokens, served up to {c.max_model_len}")
    for note in model.weights.notes:
        print(f"note          {note}")


def _print_formats(checkpoint: Checkpoint) -> None:
    from vtcore.memory_plan import gib

    counts, nbytes = Counter[str](), Counter[str]()
    for tensor in checkpoint.tensors.values():
        counts[str(tensor.dtype)] += 1
        nbytes[str(tensor.dtype)] += tensor.nbytes
    print("\nformats")
    for name, size in nbytes.most_common():
        print(f"{counts[name]:8d}  {name:10s} {gib(size)}")
    print(f"{len(checkpoint.tensors):8d}  tensors    {gib(checkpoint.nbytes)}")


def _print_memory(model: Decoder, providers: list[Provider], chosen: Options) -> None:
    from vtcore.assembly import limit_of, needs_of, scheduler_config
    from vtcore.memory_plan import plan_memory
    from vtcore.rounding import dtype_of

    chosen.suits(model.specs().values())
    needs, config = needs_of(model, providers, dtype_of(chosen.dtype), chosen.capture), scheduler_config(model, chosen)
    plan = plan_memory(needs, model.specs(), config, chosen.cache, limit_of(providers, chosen.memory_limit), chosen.offload.host_bytes)
    print(f"\nmemory\n{plan}")


def _print_placement(checkpoint: Checkpoint, model: Decoder, providers: list[Provider]) -> None:
    from vtcore.placement import Placement, outlined

    placement, outline = Placement(providers), outlined(checkpoint, model)
    placement.forward(outline, TOKENS)
    report = placement.report()
    placement.forward(outline, TOKENS)
    again = {(c.op, c.way): (c.copies, c.nbytes) for c in placement.report().copied}
    print(f"\nwhere a forward of {TOKENS} tokens would run")
    for ran in report.ran:
        print(f"{ran.calls:8d}  {ran.op:20s} {ran.provider}")
    for declined in report.declined:
        print(f"{declined.calls:8d}  {declined.op:20s} not {declined.provider}: {declined.reason}")
    if report.copied:
        print("\ncopied between memories: at the first forward, weights with it, and at each one after")
    for copied in report.copied:
        copies, nbytes = (a - b for a, b in zip(again[copied.op, copied.way], (copied.copies, copied.nbytes), strict=True))
        first = f"{copied.op:20s} {copied.way:16s} {copied.copies:5d}{_of(copied.copies, copied.nbytes)}"
        print(f"          {first}, then {copies}{_of(copies, nbytes)}")


def _of(copies: int, nbytes: int) -> str:
    """How many bytes cross; none where host and device see the same ones."""
    from vtcore.memory_plan import gib

    return f" of {gib(nbytes)}" if nbytes else " in shared memory" * bool(copies)
