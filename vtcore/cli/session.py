"""A loaded model as the commands use it: how a prompt becomes tokens, and its answer as a stream of text."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from vtcore.cli import options

if TYPE_CHECKING:
    from vtcore.llm import LLM
    from vtcore.sampling_params import SamplingParams


def load(args: argparse.Namespace) -> LLM:
    """The model that the arguments name. What it is and how it runs is said on stderr."""
    from vtcore.cli.progress import bar
    from vtcore.llm import LLM

    with bar() as progress:
        llm = LLM(args.model, **options.engine_arguments(args), progress=progress)
    note(
        f"{args.model}, numerics {args.numerics}, providers {args.providers or 'portable'}, {llm.model_config.max_model_len} tokens at most"
    )
    for text in llm.notes:
        note(text)
    return llm


def answer(llm: LLM, prompt_token_ids: list[int], params: SamplingParams) -> Iterator[str]:
    """The answer's text, piece by piece."""
    for delta in llm.stream({"prompt_token_ids": prompt_token_ids}, params):
        yield delta.text


def sampling(args: argparse.Namespace) -> SamplingParams:
    """The arguments of sampling. Those that do nothing at temperature 0 are refused there."""
    from vtcore.errors import ArgumentError
    from vtcore.sampling_params import SamplingParams

    given: dict[str, Any] = {n: getattr(args, n) for n in ("top_p", "top_k", "seed") if getattr(args, n) is not None}
    if given and args.temperature is None:
        names = ", ".join("--" + n.replace("_", "-") for n in given)
        raise ArgumentError(f"{names} does nothing at temperature 0, which is the default: give --temperature too")
    return SamplingParams(max_tokens=args.max_tokens, temperature=args.temperature or 0.0, **given)


def note(text: str) -> None:
    """A line for the person, not for the program that reads stdout."""
    print(f"vtcore: {text}", file=sys.stderr, flush=True)
