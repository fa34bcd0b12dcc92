"""`vtcore serve MODEL`: an OpenAI-compatible server, with the engine in a process of its own."""

from __future__ import annotations

import argparse
import signal
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from vtcore.cli import config_file, options
from vtcore.undisturbed import importing

if TYPE_CHECKING:
    from vtcore.server.listening import Listening
    from vtcore.server.process import EngineProcess

HIGHEST_PORT = 65535
PACKAGES = ("fastapi", "httptools", "msgspec", "prometheus_client", "pydantic", "uvicorn", "zmq")


def add(commands: Any) -> None:
    """Define the command."""
    parser = commands.add_parser("serve", help="serve a model over HTTP", description=__doc__)
    options.model(parser)
    seconds: dict[str, Any] = {"type": options.positive, "metavar": "SECONDS"}
    group = parser.add_argument_group("server")
    group.add_argument(config_file.OPTION, metavar="FILE", help="a YAML file of these options; the command line counts more")
    group.add_argument("--host", help="where to listen (default 127.0.0.1: this machine only)")
    group.add_argument("--port", type=port, metavar="N", help="(default 8000)")
    group.add_argument("--uds", type=Path, metavar="PATH", help="listen at a unix socket instead")
    group.add_argument("--ssl-keyfile", type=Path, metavar="PATH", help="the key of --ssl-certfile")
    group.add_argument("--ssl-certfile", type=Path, metavar="PATH", help="speak TLS with this certificate")
    group.add_argument("--api-key", nargs="+", default=[], metavar="KEY", help="ask for one of these as Authorization: Bearer KEY")
    group.add_argument("--served-model-name", nargs="+", metavar="NAME", help="the model's names; answers bear the first (default: MODEL)")
    group.add_argument("--allowed-origins", nargs="+", default=[], metavar="URL", help="browsers' pages that may call; * for any")
    group.add_argument("--metrics-prefix", choices=["vtcore", "vllm"], default="vtcore", help="of the names under /metrics")
    group.add_argument("--enable-server-dev-mode", action="store_true", help="routes that change the engine, such as /reset_prefix_cache")
    group.add_argument("--log-level", choices=["debug", "info", "warning", "error"], default="info", help="(default info)")
    group.add_argument("--log-format", choices=["text", "json"], default="text", help="json: an object a line, and a line a request")
    group.add_argument("--request-timeout", **seconds, default=60, help="in which a request must come: headers, then a body (default 60)")
    group.add_argument(
        "--engine-timeout", **seconds, default=300, help="an engine that gets no op done for so long is replaced (default 300)"
    )
    group.add_argument("--otlp-traces-endpoint", metavar="URL", help="send a span a request there, by OTLP over HTTP")
    options.engine(parser)
    options.debug(parser)
    parser.set_defaults(command=main)


def port(text: str) -> int:
    """A whole number from 1 to 65535."""
    if options.positive(text) > HIGHEST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is over {HIGHEST_PORT}, the highest port")
    return int(text)


def main(args: argparse.Namespace) -> int | None:
    """Take the address, start the engine's process, then the routes. Where the engine doesn't start, its status is the command's."""
    from vtcore.errors import VtcoreError

    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        raise VtcoreError(f"serve needs {', '.join(missing)}: pip install 'vtcore[serve]'")
    from vtcore.server.listening import Listening, check_tls

    check_tls(args.ssl_keyfile, args.ssl_certfile)
    before = signal.signal(signal.SIGTERM, _end)
    try:
        with Listening(args.host, args.port, args.uds) as listening:
            return _run(args, listening)
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(args: argparse.Namespace, listening: Listening) -> int | None:
    from vtcore.catalogue import resolve
    from vtcore.cli.progress import bar
    from vtcore.server.process import EngineProcess, NotStartedError

    more_files()
    with bar() as progress:
        model = resolve(args.model, progress)
    process = EngineProcess(str(model), options.engine_arguments(args), args.engine_timeout)
    try:
        _serve(process, model, args, listening)
    except NotStartedError as told:
        if told.status < 0:
            raise
        return told.status  # it has said why
    finally:
        process.stop(patience=0)
    return None


def more_files() -> None:
    """Each connection is an open file: as many as this process may have, and not the few that it has by default."""
    with suppress(ImportError, OSError, ValueError):  # not on every system
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _end(*_: object) -> NoReturn:
    """SIGTERM before the server listens, and again once it has drained: the engine's process is ended on the way out."""
    sys.exit(0)


def _serve(process: EngineProcess, model: Path, args: argparse.Namespace, listening: Listening) -> None:
    """What is imported here takes as long as a small model's loading, which goes on meanwhile."""
    with importing():
        from vtcore.server.launch import Spoken, serve

    config = {
        "names": args.served_model_name or [args.model],
        "api_keys": args.api_key,
        "origins": args.allowed_origins,
        "dev_mode": args.enable_server_dev_mode,
        "metrics_prefix": args.metrics_prefix,
        "log_format": args.log_format,
        "traces_endpoint": args.otlp_traces_endpoint,
        "request_seconds": args.request_timeout,
    }
    spoken = Spoken(args.ssl_keyfile, args.ssl_certfile, args.log_level, args.log_format, args.request_timeout)
    serve(process, model, config, spoken, listening)
