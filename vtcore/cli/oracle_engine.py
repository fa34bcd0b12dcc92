"""The engine that the options of `vtcore oracle` name."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vtcore.cli import options

if TYPE_CHECKING:
    from vtcore.oracle.engines.transformers import TransformersEngine
    from vtcore.oracle.engines.vtcore import VtcoreEngine
    from vtcore.oracle.followed import Engine
    from vtcore.oracle.recording import Recording

ENGINES = "vtcore, transformers, http://HOST:PORT of a server, or another recording's file"
REPLAY = ("providers", "threads", "memory_limit", "max_model_len", "model")  # what explain opens the model with, whatever the engine is
SERVER_OPTIONS = ("server", "served_model", "forcing", "max_requests", "timeout", "api_key_env")
_UNSET = {"numerics": "exact", "strict": False, "capture": True, "hidden_states": False}


def chosen(args: argparse.Namespace, recording: Recording, used: Sequence[str] = ()) -> Engine:
    """What --engine says, opened. `used`: options that have an effect whatever the engine is.

    Raises ArgumentError for a name that is no engine, and for options that do nothing with the one that is named."""
    from vtcore.errors import ArgumentError

    unused = tuple(n for n in (*options.ENGINE, "model") if n not in used)
    if is_url(args.engine):
        refuse(args, "a server", unused)
        return _server(args, recording)
    refuse(args, args.engine, tuple(n for n in SERVER_OPTIONS if n != "forcing" or args.engine != "vtcore"))
    if args.engine in ("vtcore", "transformers"):
        decode = args.forcing == "continue"
        hidden = any(a.hidden is not None for a in recording.answers) and not decode
        return loaded(
            args, args.engine, args.model or recording.model.name, recording.model.end_ids, hidden=hidden, decode=decode, used=used
        )
    if not Path(args.engine).is_file():
        raise ArgumentError(f"engine is {args.engine!r}; it must be {ENGINES}")
    from vtcore.oracle.engines.recording import RecordedEngine
    from vtcore.oracle.recording_file import read_recording

    refuse(args, "a recording", unused)
    return RecordedEngine(read_recording(Path(args.engine)))


def loaded(
    args: argparse.Namespace,
    engine: str,
    model: str,
    end_ids: tuple[int, ...],
    *,
    hidden: bool,
    decode: bool = False,
    used: Sequence[str] = (),
) -> VtcoreEngine | TransformersEngine:
    """vtcore or transformers, with a model."""
    if engine == "transformers":
        from vtcore.oracle.engines.transformers import TransformersEngine

        refuse(args, engine, tuple(n for n in options.ENGINE if n not in ("dtype", "threads", *used)))
        return TransformersEngine(model, dtype=args.dtype or "float32", threads=args.threads, end_ids=end_ids)
    from vtcore.cli.progress import bar
    from vtcore.oracle.engines.vtcore import VtcoreEngine

    options.one_at_a_time(args)
    with bar() as progress:
        return VtcoreEngine(model, hidden=hidden, decode=decode, **options.engine_arguments(args), progress=progress)


def _server(args: argparse.Namespace, recording: Recording) -> Engine:
    from vtcore.errors import ArgumentError
    from vtcore.oracle.engines.openai_url import ServerEngine, ServerOptions

    key = None if args.api_key_env is None else os.environ.get(args.api_key_env)
    if args.api_key_env is not None and not key:
        raise ArgumentError(f"--api-key-env names {args.api_key_env!r}, which is not set in the environment")
    given = {"forcing": args.forcing, "most_requests": args.max_requests, "timeout": args.timeout}
    named = {"server": args.server, "served_model": args.served_model, "api_key": key}
    return ServerEngine(args.engine, recording, ServerOptions(**{n: v for n, v in (given | named).items() if v is not None}))


def is_url(engine: str) -> bool:
    """Whether the engine is a server."""
    return engine.startswith(("http://", "https://"))


def refuse(args: argparse.Namespace, engine: str, names: tuple[str, ...]) -> None:
    """An option that does nothing with this engine is an error."""
    from vtcore.errors import ArgumentError

    given = [n for n in names if getattr(args, n, None) != _UNSET.get(n)]
    if given:
        shown = ", ".join("--no-capture" if n == "capture" else "--" + n.replace("_", "-") for n in given)
        raise ArgumentError(f"{shown} does nothing with engine {engine}; leave it away")
