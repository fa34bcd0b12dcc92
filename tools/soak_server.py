"""Many streams at once, some of which are left in the middle: every finished one is whole, and afterwards nothing is held.

python tools/soak_server.py http://127.0.0.1:8000 --streams 200 --seconds 120 --pid PID
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx

LEAVE = 0.3  # the part of streams that are left before their end
LONGEST = 48  # tokens
SETTLE = 30.0  # seconds for the server to notice that everybody has gone


def main() -> None:
    """Print what became of the streams, and memory at the start, in the middle and at the end; AssertionError for what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", metavar="URL")
    parser.add_argument("--streams", type=int, default=200, metavar="N", help="at once (default 200)")
    parser.add_argument("--seconds", type=float, default=120, metavar="S", help="(default 120)")
    parser.add_argument("--warm", type=float, default=0, metavar="S", help="before that, while caches fill up to their budgets (default 0)")
    parser.add_argument("--pid", type=int, required=True, metavar="PID", help="of the server, to see its memory and its engine's")
    args = parser.parse_args()
    asyncio.run(soak(args.base.rstrip("/"), args.streams, args.warm, args.seconds, args.pid))


async def soak(base: str, streams: int, warm: float, seconds: float, pid: int) -> None:
    """Keep so many streams open for so long; memory is looked at when they have run for `warm` seconds."""
    ends: Counter[str] = Counter()
    stop = time.monotonic() + warm + seconds
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(base_url=base, timeout=120, limits=limits) as client:
        readers = [asyncio.create_task(_read_on(client, random.Random(i), stop, ends)) for i in range(streams)]
        sizes = []
        for part in (0.25, 0.5, 1.0):
            await asyncio.sleep(max(0.0, stop - seconds * (1 - part) - time.monotonic()))
            sizes.append(resident(pid))
        await asyncio.gather(*readers)
        stats = await _settled(client)
    print(dict(ends), f"resident MiB after a quarter, half and all: {sizes}", stats)
    assert ends["whole"], "no stream came to its end"
    assert not ends["broken"], "streams ended otherwise than they must"
    assert sizes[-1] <= 1.05 * sizes[0], "memory grew by more than 5 %"


async def _read_on(client: httpx.AsyncClient, draw: random.Random, stop: float, ends: Counter[str]) -> None:
    while time.monotonic() < stop:
        ends[await _one(client, draw)] += 1


async def _one(client: httpx.AsyncClient, draw: random.Random) -> str:
    """One stream: whole, left, or broken."""
    words = " ".join(draw.choice(("sky", "sea", "stone", "seven")) for _ in range(draw.randrange(1, 40)))
    tokens, leave = draw.randrange(1, LONGEST), draw.random() < LEAVE
    body = {"prompt": words, "max_tokens": tokens, "stream": True, "temperature": draw.choice((0, 0.8)), "ignore_eos": True}
    frames: list[str] = []
    async with client.stream("POST", "/v1/completions", json=body) as answer:
        async for line in answer.aiter_lines():
            if line:
                frames.append(line)
            if leave and len(frames) > tokens // 2:
                return "left"
    return "whole" if answer.status_code == 200 and well_formed(frames) else "broken"


def well_formed(frames: list[str]) -> bool:
    """Whether a stream has one choice that ends by its length, and [DONE] at last."""
    told = [json.loads(frame.removeprefix("data: ")) for frame in frames[:-1]]
    reasons = [choice["finish_reason"] for frame in told for choice in frame["choices"]]
    return frames[-1:] == ["data: [DONE]"] and reasons[-1:] == ["length"] and not any(reasons[:-1])


async def _settled(client: httpx.AsyncClient) -> dict[str, Any]:
    """The engine's numbers once it is idle; AssertionError where it stays busy or holds pages."""
    end = time.monotonic() + SETTLE
    while True:
        stats: dict[str, Any] = (await client.get("/stats")).json()["stats"]
        load = (await client.get("/load")).json()["server_load"]
        if not stats["running"] and not stats["waiting"] and not stats["kv_usage"] and not load:
            return stats
        assert time.monotonic() < end, f"still held: {stats}, load {load}"
        await asyncio.sleep(0.1)


def resident(pid: int) -> int:
    """MiB of a process and of its children."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    pids = [pid, *(int(child) for task in tasks for child in (task / "children").read_text().split())]
    pages = sum(int(Path(f"/proc/{p}/statm").read_text().split()[1]) for p in pids)
    return pages * 4096 >> 20


if __name__ == "__main__":
    main()
