"""`vtcore run-batch MODEL IN OUT`: answer a file of requests in OpenAI's batch format. Started again, it goes on where it was."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtcore.cli import options

if TYPE_CHECKING:
    from vtcore.api.batch import Outcome
    from vtcore.llm import LLM

NEEDS = "run-batch needs pydantic: pip install 'vtcore[serve]'"


def add(commands: Any) -> None:
    """Define the command."""
    parser = commands.add_parser("run-batch", help="answer a file of requests", description=__doc__)
    options.model(parser)
    parser.add_argument("source", metavar="IN", type=Path, help='lines of {"custom_id", "method": "POST", "url", "body"}')
    parser.add_argument("target", metavar="OUT", type=Path, help="where answers are added; those that it has already are not asked again")
    parser.add_argument("--served-model-name", metavar="NAME", help="the model's name in requests and answers (default: MODEL)")
    options.engine(parser)
    options.debug(parser)
    parser.set_defaults(command=main)


def main(args: argparse.Namespace) -> None:
    """Load, answer, count."""
    import asyncio

    from vtcore.cli import session
    from vtcore.errors import VtcoreError

    if find_spec("pydantic") is None:
        raise VtcoreError(NEEDS)
    options.all_may_wait(args)
    with closing(session.load(args)) as llm:
        outcome = asyncio.run(_run(llm, args))
    told = [f"{outcome.refused} requests were refused; {args.target} says why"] if outcome.refused else []
    for custom_id, fault in list(outcome.failed.items())[:1]:
        told.append(f"{len(outcome.failed)} have no answer, the first {custom_id!r:.100}: {fault}; the same command asks them again")
    if told:
        raise VtcoreError("; ".join(told))


async def _run(llm: LLM, args: argparse.Namespace) -> Outcome:
    from tqdm import tqdm

    from vtcore.api.batch import run_batch
    from vtcore.api.service import Service
    from vtcore.async_engine import AsyncEngine

    engine = AsyncEngine(llm)
    with tqdm(unit="request", file=sys.stderr, disable=None) as bar:

        def done(count: int, total: int) -> None:
            bar.total = total
            bar.update(count - bar.n)

        try:
            service = Service(engine, llm.checkpoint, llm.tokenizer, [args.served_model_name or args.model])
            return await run_batch(service, args.source, args.target, 2 * llm.engine.scheduler.config.max_num_seqs, done)
        finally:
            await engine.close()
