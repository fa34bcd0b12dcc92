"""What takes fresh processes: the first token from their start, and the most memory that they held."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import median

from peers.channel import NotInstalledError, PeerError, Start, Worker
from peers.groups import DECODE_16, LABELS, PREFILL_512, Group
from peers.paired import PAUSE, Found, Named, Plan, Row
from vtcore.bench.first_token import PROMPT, command, seconds_to_output
from vtcore.errors import VtcoreError

FIRST_TOKEN, MORE, EXTRA = 0.5, 1.15, 250e6  # seconds; times the peer's memory, and bytes beside that


def fresh(group: Group, plan: Plan, folder: Callable[[str], str]) -> Iterator[Found]:
    """First token and peak memory against llama.cpp."""
    ours, theirs = (plan.start(group, engine, folder) for engine in ("vtcore", "llama"))
    for measure in (first_token, memory):
        try:
            yield measure(group, plan, ours, theirs)
        except NotInstalledError as wrong:
            yield Named(group.title, f"{LABELS['llama']} is not installed: {wrong}")
        except PeerError as wrong:
            yield Named(group.title, str(wrong))


def first_token(group: Group, plan: Plan, ours: Start, theirs: Start) -> Row:
    """Seconds to the first output, in turns; a start of each before that isn't counted."""
    product = command(ours.model, ["--numerics", ours.numerics, "--threads", str(ours.threads)])
    runs = [(seconds(product, ours), seconds(theirs.command("--first-token", PROMPT), theirs)) for _ in range(plan.rounds + 1)][1:]
    mine, other = zip(*runs, strict=True)
    row = Row(group.title, "first token from process start", LABELS["llama"], "s", mine, other)
    return replace(row, wanted=f"{FIRST_TOKEN:g} s", met=median(row.ours) <= FIRST_TOKEN)


def seconds(words: list[str], start: Start) -> float:
    """From a process's start to its first byte."""
    try:
        return seconds_to_output(words, start.environment())
    except VtcoreError as wrong:
        raise PeerError(str(wrong)) from wrong
    finally:
        time.sleep(PAUSE)


def memory(group: Group, plan: Plan, ours: Start, theirs: Start) -> Row:
    """Bytes at most, after the same work: one prompt of 512 tokens, 16 sequences."""
    mine, other = (peak(start, plan) for start in (ours, theirs))
    row = Row(group.title, "peak memory", LABELS["llama"], "MB", [mine / 1e6], [other / 1e6])
    return replace(row, wanted=f"{MORE:g} x + {EXTRA / 1e6:g} MB", met=mine <= MORE * other + EXTRA)


def peak(start: Start, plan: Plan) -> float:
    """Of a process that does just this."""
    worker = Worker(start)
    try:
        for case in (PREFILL_512, DECODE_16):
            worker.ask(**case.request(worker.variants[-1], plan.steps))
        return float(worker.ask("memory")["bytes"])
    finally:
        worker.close()
