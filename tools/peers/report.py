"""Rows as a table: for a terminal, as markdown, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from io import StringIO
from statistics import median
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from peers.paired import Found, Named, Plan, Row
from vtcore.bench import machine
from vtcore.bench.machine import BUSY
from vtcore.bench.show import text

WIDTH = 180
HEADINGS = ("model", "case", "here", "peer", "there", "ratio", "least", "most", "wanted", "met", "note")


def line(found: Found) -> str:
    """One of them as it comes in."""
    if isinstance(found, Named):
        return f"{found.group}: {' '.join(found.text.split())}"
    return " | ".join(cells(found))


def cells(row: Row) -> list[str]:
    """A row's texts, in the order of HEADINGS."""
    ours, theirs = (f"{text(median(values))} {row.unit}" for values in (row.ours, row.theirs))
    ratios = [f"{r:.2f}" for r in (row.ratio, min(row.ratios), max(row.ratios))]
    met = {None: "?" if row.wanted else "", True: "yes", False: "no"}[row.met]
    note = "; ".join(filter(None, (row.note, f"DISTURBED: {row.disturbed}" if row.disturbed else "")))
    return [row.group, row.case, ours, row.peer, theirs, *ratios, row.wanted, met, note]


def table(found: Sequence[Found], plan: Plan, facts: Mapping[str, Any]) -> str:
    """For a terminal."""
    grid = Table(*HEADINGS)
    for row in found:
        if isinstance(row, Row):
            grid.add_row(*map(escape, cells(row)))
    text = StringIO()
    Console(width=WIDTH, file=text).print(grid)
    notes = [line(f) for f in found if isinstance(f, Named)]
    return "\n".join([headline(plan, facts), text.getvalue(), *notes])


def markdown(found: Sequence[Found], plan: Plan, facts: Mapping[str, Any]) -> str:
    """Machine, table, and what there is to say besides."""
    rows = [f for f in found if isinstance(f, Row)]
    lines = [headline(plan, facts), "", f"| {' | '.join(HEADINGS)} |", "|---" * len(HEADINGS) + "|"]
    lines += [f"| {' | '.join(c.replace('|', '/') for c in cells(row))} |" for row in rows]
    lines += ["", *(f"- {line(f)}" for f in found if isinstance(f, Named))]
    return "\n".join(lines)


def headline(plan: Plan, facts: Mapping[str, Any]) -> str:
    """The machine and the method in two sentences."""
    packages = ", ".join(f"{n} {v}" for n, v in facts["packages"].items() if v)
    busy = f" Others used {facts['load']} threads in the minute before." if facts["load"] and facts["load"] > BUSY else ""
    return (
        f"{facts['processor']}, {facts['cores']} cores, {facts['system']}, Python {facts['python']}, {packages}.{busy} "
        f"{plan.threads} threads; {plan.rounds} rounds, in each of which every engine runs the case once ({plan.steps} steps of decode); "
        "speeds are medians, ratios are taken within a round."
    )


def as_json(found: Sequence[Found], plan: Plan, facts: Mapping[str, Any]) -> str:
    """Everything, every round."""
    rows = [f.json() for f in found if isinstance(f, Row)]
    notes = [vars(f) for f in found if isinstance(f, Named)]
    settings = {"threads": plan.threads, "rounds": plan.rounds, "steps": plan.steps}
    return json.dumps({"machine": dict(facts), "settings": settings, "rows": rows, "notes": notes}, indent=1)


def facts() -> dict[str, Any]:
    """Of this machine, taken before anything runs."""
    return machine.describe()
