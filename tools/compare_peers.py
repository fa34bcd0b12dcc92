"""Real engines held against vtcore on the catalogue's small model: the verdicts of docs/oracle-in-ci.md.

python tools/compare_peers.py -o DIRECTORY --llama-server PATH          llama.cpp's own server
python tools/compare_peers.py -o DIRECTORY --llama-python PATH          llama-cpp-python[server], installed for another Python
python tools/compare_peers.py -o DIRECTORY --transformers-python PATH   transformers in float32 and bfloat16, likewise

No test: llama.cpp comes from the package index as sources alone, and takes a compiler and minutes; torch is too large."""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from vtcore.catalogue import resolve

ROOT = Path(__file__).parents[1]
MODEL = "smollm2-135m"
READY = 120  # seconds


def parser() -> argparse.ArgumentParser:
    """The options."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    p.add_argument("-o", "--output", type=Path, required=True, metavar="DIRECTORY", help="for recordings and pages")
    p.add_argument("--prompts", type=Path, default=ROOT / "docs/examples/prompts.jsonl", metavar="FILE")
    p.add_argument("--max-tokens", default="64", metavar="N")
    for peer in ("llama-server", "llama-python", "transformers-python"):
        p.add_argument(f"--{peer}", metavar="PATH")
    return p


def vtcore(*arguments: str | Path, python: str = sys.executable) -> int:
    """A command of this tree's vtcore. Its exit status."""
    command = [python, "-m", "vtcore", "oracle", *map(str, arguments)]
    print("\n$ vtcore oracle", *map(str, arguments), flush=True)
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}).returncode


@contextmanager
def serving(command: Sequence[str], path: str) -> Iterator[str]:
    """A server's address, for as long as the block is open; `PORT` in the command stands for a free one."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([c.replace("PORT", str(port)) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait(f"http://127.0.0.1:{port}{path}", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def wait(url: str, process: subprocess.Popen[bytes]) -> None:
    """Until it answers."""
    end = time.monotonic() + READY
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    raise SystemExit(f"nothing answers at {url}: the server {'is too slow' if process.poll() is None else 'has ended'}")


def main(argv: Sequence[str] | None = None) -> None:
    """Record, then compare with each engine that is named."""
    args = parser().parse_args(argv)
    args.output.mkdir(parents=True, exist_ok=True)
    golden, rounded = (args.output / f"{dtype}.safetensors" for dtype in ("float32", "bfloat16"))
    asked = ["--prompts", args.prompts, "--max-tokens", args.max_tokens]
    vtcore("record", MODEL, *asked, "-o", golden)
    file = str(resolve(MODEL))
    compared = ["--arithmetic", "int8", "--timeout", "1200", "--html"]
    if args.llama_server:
        with serving([args.llama_server, "-m", file, "--port", "PORT", "-c", "2048"], "/health") as url:
            vtcore("compare", golden, "--engine", url, *compared, args.output / "llama-server.html")
    if args.llama_python:
        options = ["--model", file, "--logits_all", "true", "--n_ctx", "512", "--port", "PORT", "--verbose", "false"]
        with serving([args.llama_python, "-m", "llama_cpp.server", *options], "/v1/models") as url:
            vtcore("compare", golden, "--engine", url, *compared, args.output / "llama-cpp-python.html")
    if args.transformers_python:
        python = args.transformers_python
        vtcore("compare", golden, "--engine", "transformers", "--html", args.output / "transformers.html", python=python)
        vtcore("record", MODEL, *asked, "--dtype", "bfloat16", "-o", rounded)
        bfloat16 = ["--dtype", "bfloat16", "--arithmetic", "bfloat16", "--html", args.output / "transformers-bfloat16.html"]
        vtcore("compare", rounded, "--engine", "transformers", *bfloat16, python=python)


if __name__ == "__main__":
    main()
