"""`vtcore oracle record | compare | explain`: recorded answers, another engine held against them, and why a token differs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtcore.cli import options
from vtcore.cli.oracle_engine import ENGINES, REPLAY, SERVER_OPTIONS, chosen, is_url, loaded, refuse

if TYPE_CHECKING:
    from vtcore.oracle.followed import Engine
    from vtcore.oracle.recording import Recording
    from vtcore.oracle.verdict import Comparison, Tolerances

ARITHMETIC = ("float32", "float16", "bfloat16", "int8")


def add(commands: Any) -> None:
    """Define the command and what is under it."""
    parser = commands.add_parser("oracle", help="hold another engine against recorded answers", description=__doc__)
    under = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_record(under)
    _add_compare(under)
    _add_explain(under)


def _add_record(commands: Any) -> None:
    parser = commands.add_parser("record", help="record a model's answers", description=record.__doc__)
    options.model(parser)
    parser.add_argument("--prompts", required=True, type=Path, metavar="FILE", help="text, a line a prompt, or .jsonl")
    parser.add_argument("--chat", action="store_true", help="each text is what a user says, through the model's chat template")
    parser.add_argument("-o", "--output", required=True, type=Path, metavar="FILE", help="the recording, FILE.safetensors")
    parser.add_argument("--max-tokens", type=options.positive, default=64, metavar="N", help="of an answer, at most (default 64)")
    parser.add_argument("--top-k-logprobs", type=options.positive, default=8, metavar="K", help="alternatives of each token (default 8)")
    parser.add_argument("--hidden-states", action="store_true", help="every layer's output at every position too: a large file")
    parser.add_argument("--engine", choices=["vtcore", "transformers"], default="vtcore", help="whose answers (default vtcore)")
    options.engine(parser)
    options.debug(parser)
    parser.set_defaults(command=record)


def _add_compare(commands: Any) -> None:
    parser = commands.add_parser("compare", help="hold an engine against a recording", description=compare.__doc__)
    parser.add_argument("recording", type=Path, metavar="RECORDING", help="what `vtcore oracle record` wrote")
    parser.add_argument("--engine", required=True, metavar="ENGINE", help=ENGINES)
    parser.add_argument("--model", metavar="MODEL", help="for vtcore and transformers (default: the one that was recorded)")
    _add_tolerances(parser)
    _add_server(parser)
    reports = parser.add_argument_group("reports")
    for form, what in (("json", "every token"), ("junit", "for CI systems"), ("html", "one page with a map of every token")):
        reports.add_argument(f"--{form}", type=Path, metavar="FILE", help=what)
    options.engine(parser)
    options.debug(parser)
    parser.set_defaults(command=compare)


def _add_explain(commands: Any) -> None:
    parser = commands.add_parser("explain", help="which arithmetic flips a token", description=explain.__doc__)
    parser.add_argument("recording", type=Path, metavar="RECORDING", help="what `vtcore oracle record` wrote")
    parser.add_argument("--prompt", required=True, type=options.positive, metavar="N", help="which prompt, from 1 on")
    parser.add_argument("--position", type=int, metavar="P", help="which token, from 0 on (default: where the engine differs)")
    parser.add_argument("--engine", metavar="ENGINE", help=f"whose token is the rival: {ENGINES} (default: the recorded second best)")
    parser.add_argument("--model", metavar="MODEL", help="to replay with (default: the one that was recorded)")
    _add_server(parser)
    options.engine(parser)
    options.debug(parser)
    parser.set_defaults(command=explain)


def _add_tolerances(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("tolerances")
    group.add_argument("--arithmetic", choices=ARITHMETIC, help="what the engine computes in: sets the tolerances (default float32)")
    group.add_argument("--near-tie", type=options.number, metavar="NATS", help="a token may differ where the recorded two are this near")
    group.add_argument("--logprob-tolerance", type=options.number, metavar="NATS", help="of a likely token's log probability")
    group.add_argument("--hidden-tolerance", type=options.number, metavar="SHARE", help="of a layer's output: names the first beyond it")
    group.add_argument("--no-near-ties", action="store_true", help="a near tie fails too")


def _add_server(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("server")
    group.add_argument("--server", metavar="KIND", help="vllm, vtcore, sglang, llama.cpp, llama-cpp-python, ollama or openai")
    group.add_argument("--served-model", metavar="NAME", help="of several that it serves")
    group.add_argument("--forcing", choices=["auto", "score", "continue"], help="auto: score where the engine can, else continue")
    group.add_argument("--max-requests", type=options.positive, metavar="N", help="for one prompt when continuing (default 16)")
    group.add_argument("--timeout", type=options.number, metavar="S", help="seconds for one request (default 60)")
    group.add_argument("--api-key-env", metavar="NAME", help="the environment variable that holds the key")


def record(args: argparse.Namespace) -> None:
    """Answer prompts greedily and keep tokens, log probabilities and what made them."""
    from vtcore.oracle.prompts import read_prompts
    from vtcore.oracle.record import facts_of
    from vtcore.oracle.record import record as recorded
    from vtcore.oracle.recording_file import write_recording

    options.writable({"output": args.output})
    if args.engine == "transformers":
        refuse(args, args.engine, ("hidden_states",))
    prompts = read_prompts(args.prompts, args.chat)
    facts, tokenizer = facts_of(args.model)
    engine = loaded(args, args.engine, args.model, facts.end_ids, hidden=args.hidden_states)
    try:
        made = recorded((facts, tokenizer), prompts, engine, max_tokens=args.max_tokens, alternatives=args.top_k_logprobs)
    finally:
        engine.close()
    write_recording(made, args.output)
    tokens = sum(len(a.token_ids) for a in made.answers)
    least = min(float(a.margins.min()) for a in made.answers)
    print(f"{args.output}: {len(made.answers)} prompts, {tokens} tokens, the nearest tie {least:.3g}, {args.output.stat().st_size} bytes")


def compare(args: argparse.Namespace) -> int:
    """Hold an engine against recorded answers, token by token. Exit status 0 if every prompt is EXACT or NEAR_TIE, else 1."""
    from dataclasses import replace

    from vtcore.oracle.comparison import compare as compared
    from vtcore.oracle.recording_file import read_recording
    from vtcore.oracle.reports.table import table

    options.writable({"json": args.json, "junit": args.junit, "html": args.html})
    recording, limits = read_recording(args.recording), _tolerances(args)
    engine = chosen(args, recording)
    try:
        notes = _notes(args, recording, engine)
        found = compared(recording, engine, limits, name=args.recording.name, arithmetic=_arithmetic(args), notes=notes)
    finally:
        engine.close()
    found = replace(found, near_ties_pass=not args.no_near_ties)
    print(table(found))
    _write(args, found)
    return 0 if found.passed else 1


def explain(args: argparse.Namespace) -> None:
    """Replay one position under float32, bfloat16, float16 and 8-bit arithmetic, and with each op rounded alone."""
    from contextlib import closing, nullcontext

    from vtcore.oracle.choices import opener
    from vtcore.oracle.explain import explain as explained
    from vtcore.oracle.recording_file import read_recording

    recording = read_recording(args.recording)
    if args.engine is None:
        unused = (n for n in options.ENGINE if n not in REPLAY)
        refuse(args, "vtcore, which replays every choice", (*SERVER_OPTIONS, *unused))
    kept = {n: getattr(args, n) for n in REPLAY if n != "model" and getattr(args, n) is not None}
    replay = opener(args.model or recording.model.name, **kept)
    with nullcontext() if args.engine is None else closing(chosen(args, recording, REPLAY)) as engine:
        print(explained(recording, args.prompt, replay, position=args.position, engine=engine))


def _arithmetic(args: argparse.Namespace) -> str:
    return args.arithmetic or "float32"


def _tolerances(args: argparse.Namespace) -> Tolerances:
    from dataclasses import replace

    from vtcore.oracle.verdict import ARITHMETIC

    given = {"near_tie": args.near_tie, "logprob": args.logprob_tolerance, "hidden": args.hidden_tolerance}
    return replace(ARITHMETIC[_arithmetic(args)], **{n: v for n, v in given.items() if v is not None})


def _notes(args: argparse.Namespace, recording: Recording, engine: Engine) -> list[str]:
    """What may explain differences: the model's files are other ones."""
    from vtcore.oracle.engines.recording import RecordedEngine
    from vtcore.oracle.record import facts_of

    if is_url(args.engine):
        return []
    facts = engine.recording.model if isinstance(engine, RecordedEngine) else facts_of(args.model or recording.model.name)[0]
    notes = [] if facts.files == recording.model.files else ["the model's files are not those of the recording"]
    return notes + (["its tokenizer is another one"] if facts.tokenizer != recording.model.tokenizer else [])


def _write(args: argparse.Namespace, found: Comparison) -> None:
    from vtcore.oracle.reports.html import as_html
    from vtcore.oracle.reports.json import as_json
    from vtcore.oracle.reports.junit import as_junit
    from vtcore.written import write

    for path, form in ((args.json, as_json), (args.junit, as_junit), (args.html, as_html)):
        if path is not None:
            write(path, form(found))
