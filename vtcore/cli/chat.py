"""`vtcore chat MODEL`: a conversation, a line a turn. /reset forgets it, /report says what ran where, /quit ends."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

from vtcore.cli import options

if TYPE_CHECKING:
    from vtcore.llm import LLM
    from vtcore.sampling_params import SamplingParams

MAX_TOKENS = 512
COMMANDS = "/reset forgets the conversation, /report says what ran where, /quit ends"


def add(commands: Any) -> None:
    """Define the command."""
    parser = commands.add_parser("chat", help="talk with a model", description=__doc__)
    options.model(parser)
    parser.add_argument("--system", metavar="TEXT", help="a system message before the conversation")
    options.sampling(parser, MAX_TOKENS)
    options.engine(parser)
    options.debug(parser)
    parser.set_defaults(command=main)


def main(args: argparse.Namespace) -> None:
    """Load, then answer line after line until the end of input."""
    from vtcore.cli import session
    from vtcore.errors import ArgumentError

    options.one_at_a_time(args)
    params = session.sampling(args)
    with closing(session.load(args)) as llm:
        if llm.tokenizer.chat_template is None:
            raise ArgumentError(f"model {args.model!r} has no chat template, so it can't converse; `vtcore run` continues a text")
        if sys.stdin.isatty():
            session.note(COMMANDS)
        Conversation(llm, params, args.system).hold(_lines())


class Conversation:
    """The messages so far. Every turn renders all of them anew."""

    def __init__(self, llm: LLM, params: SamplingParams, system: str | None) -> None:
        self.llm, self.params = llm, params
        self.opening = [] if system is None else [{"role": "system", "content": system}]
        self.messages = list(self.opening)

    def hold(self, lines: Iterator[str]) -> None:
        """Answer each line, or do what it commands."""
        for line in lines:
            if line == "/quit":
                return
            if line == "/reset":
                self.messages = list(self.opening)
            elif line == "/report":
                print(self.llm.report(), flush=True)
            elif line.startswith("/"):
                print(f"there is no command {line.split()[0]}; {COMMANDS}", flush=True)
            elif line:
                self._turn(line)

    def _turn(self, line: str) -> None:
        """A turn that Ctrl-C breaks off is forgotten; at a terminal the conversation goes on."""
        from vtcore.cli import session

        messages = [*self.messages, {"role": "user", "content": line}]
        pieces: list[str] = []
        try:
            for text in session.answer(self.llm, self.llm.tokenizer.encode_chat(messages), self.params):
                pieces.append(text)
                print(text, end="", flush=True)
        except KeyboardInterrupt:
            if not sys.stdin.isatty():
                raise
            print(" (stopped: this turn is forgotten)", flush=True)
            return
        print(flush=True)
        self.messages = [*messages, {"role": "assistant", "content": "".join(pieces)}]


def _lines() -> Iterator[str]:
    if not sys.stdin.isatty():
        yield from (line.strip() for line in sys.stdin)
        return
    with suppress(ImportError):  # line editing and history, where Python has it
        import readline  # noqa: F401 - input() uses it once it is imported
    with suppress(EOFError):
        while True:
            yield input(">>> ").strip()
