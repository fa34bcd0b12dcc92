"""What a server costs: streams of `vtcore serve` against the same engine in a process of its own, in turns, as ratios.

python tools/bench_server.py MODEL.gguf --numerics fast
python tools/bench_server.py MODEL.gguf --numerics fast --against http://127.0.0.1:8080     a server of the same model besides

In each round the same prompts, drawn by chance, go to each at once; a figure is all new tokens by the seconds from the first byte sent to
the last one received. The reading end does as little as it can: what the answers hold is looked at when the clock has stopped. Nothing
else should run on the machine."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from bench_peers import positive
from peers.channel import Start, Worker
from peers.paired import PAUSE, rate
from peers.streams import At, answers, health

from vtcore.bench.run import serving_length

LOAD_SECONDS = 60.0
Prompts = list[list[int]]
Measure = Callable[[Prompts, int], float]


def parser() -> argparse.ArgumentParser:
    """The options."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    p.add_argument("model", metavar="MODEL", help="a .gguf file or a directory")
    p.add_argument("--against", metavar="URL", help="a server that listens already, to which the same prompts are sent")
    p.add_argument("--numerics", choices=["exact", "fast"], default="exact")
    p.add_argument("--threads", type=positive, default=os.cpu_count() or 1, metavar="N")
    p.add_argument("--streams", type=positive, default=16, metavar="N", help="at once (default 16)")
    p.add_argument("--prompt", type=positive, default=128, metavar="N", help="tokens (default 128)")
    p.add_argument("--tokens", type=positive, default=128, metavar="N", help="that each stream adds (default 128)")
    p.add_argument("--vocabulary", type=positive, default=30000, metavar="N", help="prompts are of token ids below this (default 30000)")
    p.add_argument("--rounds", type=positive, default=5, metavar="N", help="(default 5); one before them isn't counted")
    p.add_argument("--wanted", type=float, default=0.9, metavar="R", help="of the engine's own rate (default 0.9)")
    return p


def main(argv: Sequence[str] | None = None) -> int:
    """Print each round and the medians. 1 where the server reaches less than what is wanted."""
    args = parser().parse_args(argv)
    with tempfile.TemporaryDirectory() as folder, served(args, Path(folder) / "s") as server:
        engine = Worker(Start("vtcore", sys.executable, args.model, args.threads, args.numerics))
        try:
            measures = {"engine": alone(engine), "served": over(server)}
            if args.against is not None:
                measures["against"] = over(At.url(args.against))
            rounds = list(measured(measures, args))
        finally:
            engine.close()
    shares = [r["served"] / r["engine"] for r in rounds]
    print(f"served, of the engine's own rate: {median(shares):.3f} (of {len(shares)}: {min(shares):.3f} to {max(shares):.3f})")
    if args.against is not None:
        times = [r["served"] / r["against"] for r in rounds]
        print(f"served, to {args.against}: {median(times):.2f} x ({min(times):.2f} to {max(times):.2f})")
    return int(median(shares) < args.wanted)


def measured(measures: dict[str, Measure], args: argparse.Namespace) -> Iterator[dict[str, float]]:
    """Tokens a second of each, round by round."""
    draw = random.Random(0)
    for number in range(args.rounds + 1):
        prompts = [[draw.randrange(100, args.vocabulary) for _ in range(args.prompt)] for _ in range(args.streams)]
        found = dict[str, float]()
        for name, measure in measures.items():
            found[name] = measure(prompts, args.tokens)
            time.sleep(PAUSE)
        if number:
            print(*(f"{name} {value:.1f}" for name, value in found.items()), "tokens/s", flush=True)
            yield found


def alone(engine: Worker) -> Measure:
    """The engine without a server: all prompts in one call."""
    return lambda prompts, tokens: rate(engine.ask("generate", prompts=prompts, tokens=tokens))


def over(server: At) -> Measure:
    """A server: a stream a prompt."""

    def measure(prompts: Prompts, tokens: int) -> float:
        start = time.perf_counter()
        raw = asyncio.run(server.ask_all([body(prompt, tokens) for prompt in prompts]))
        seconds = time.perf_counter() - start
        counts = [answers(one) for one in raw]
        assert counts == [tokens] * len(prompts), f"streams of {tokens} tokens each were asked for, and came with {counts}"
        return sum(counts) / seconds

    return measure


def body(prompt: list[int], tokens: int) -> dict[str, object]:
    """A completion, streamed, that nothing but its length ends."""
    asked = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
    return {**asked, "stream": True, "stream_options": {"include_usage": True}}


@contextmanager
def served(args: argparse.Namespace, path: Path) -> Iterator[At]:
    """`vtcore serve` at a unix socket, ready."""
    options = ["--numerics", args.numerics, "--threads", str(args.threads), "--max-model-len", str(serving_length(args.model))]
    command = [sys.executable, "-m", "vtcore", "serve", args.model, "--uds", str(path), "--log-level", "warning", *options]
    process, server = subprocess.Popen(command), At(path=str(path))
    try:
        end = time.monotonic() + LOAD_SECONDS
        while not asyncio.run(health(server)):
            if process.poll() is not None or time.monotonic() > end:
                sys.exit("the server doesn't come up")
            time.sleep(0.05)
        yield server
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
