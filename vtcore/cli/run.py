"""`vtcore run MODEL PROMPT`: answer one prompt and stream the text to stdout."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

from vtcore.cli import options, watch

if TYPE_CHECKING:
    from vtcore.llm import LLM
    from vtcore.sampling_params import SamplingParams

MAX_TOKENS = 256


def add(commands: Any) -> None:
    """Define the command."""
    parser = commands.add_parser("run", help="answer one prompt", description=__doc__)
    options.model(parser)
    parser.add_argument("prompt", metavar="PROMPT", help="the text; - reads it from stdin")
    parser.add_argument("--raw", action="store_true", help="continue PROMPT as it is, without the model's chat template")
    parser.add_argument("--system", metavar="TEXT", help="a system message before the prompt")
    parser.add_argument("--json", action="store_true", help="print one object at the end: token ids, text, timings, report")
    parser.add_argument("--report", action="store_true", help="print what ran where, what was declined and why (with --json: to stderr)")
    options.sampling(parser, MAX_TOKENS)
    options.engine(parser)
    watch.add(parser)
    options.debug(parser)
    parser.set_defaults(command=main)


def main(args: argparse.Namespace) -> None:
    """Load, answer, print."""
    from vtcore.cli import session

    options.one_at_a_time(args)
    params = session.sampling(args)
    prompt = _utf8(sys.stdin.read() if args.prompt == "-" else args.prompt)
    harvest = watch.check(args)
    with closing(session.load(args)) as llm, watch.watching(args, harvest, llm):
        ids = _prompt_token_ids(llm, prompt, args)
        if args.json:
            _print_object(llm, ids, params)
        else:
            for text in session.answer(llm, ids, params):
                print(text, end="", flush=True)
            print()
        if args.report:
            print(llm.report(), file=sys.stderr if args.json else sys.stdout)


def _utf8(text: str) -> str:
    """What the locale couldn't decode, and Python kept as halves of surrogate pairs, as the UTF-8 that it most likely is."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _prompt_token_ids(llm: LLM, prompt: str, args: argparse.Namespace) -> list[int]:
    from vtcore.cli import session
    from vtcore.errors import ArgumentError

    templated = not args.raw and llm.tokenizer.chat_template is not None
    if args.system is not None and not templated:
        raise ArgumentError("--system needs a chat template: " + ("--raw leaves it out" if args.raw else "this model has none"))
    if templated:
        system = [] if args.system is None else [{"role": "system", "content": args.system}]
        return llm.tokenizer.encode_chat([*system, {"role": "user", "content": prompt}])
    if not args.raw:
        session.note("this model has no chat template, so it continues the prompt as plain text")
    return llm.tokenizer.encode(prompt)


def _print_object(llm: LLM, ids: list[int], params: SamplingParams) -> None:
    (output,) = llm.generate([{"prompt_token_ids": ids}], params, use_tqdm=False)
    print(json.dumps({**output.json(), "report": llm.report().json()}))
