"""A result as tables for people."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from vtcore.bench.machine import BUSY
from vtcore.bench.measured import Measured
from vtcore.bench.run import Result
from vtcore.bench.suite import OpTime

WIDTH = 140  # where nobody knows how wide the reader's screen is
SCALES = {"bytes": (1 << 20, "MiB")}  # unit -> what a person's unit holds of it, and its name


def show(result: Result, console: Console | None = None) -> None:
    """Print all of it."""
    out = console or Console(width=None if sys.stdout.isatty() else WIDTH)
    for line in headings(result):
        out.print(line, markup=False, highlight=False, soft_wrap=True)
    if result.figures:
        out.print(figures_table(result.figures))
    for case, times in result.ops.items():
        out.print(ops_table(case, times))


def headings(result: Result) -> list[str]:
    """The machine, the model, the settings."""
    m, model, s = result.machine, result.model, result.settings
    packages = ", ".join(f"{n} {v}" for n, v in m["packages"].items() if v)
    formats = ", ".join(f"{name} {nbytes >> 20} MiB" for name, nbytes in model["formats"].items())
    lines = [
        f"machine   {m['processor']}, {m['cores']} cores, {m['architecture']}",
        f"versions  Python {m['python']}, {packages}",
        *(f"provider  {name}: {'; '.join(f'{k}: {v}' for k, v in facts.items()) or 'no facts'}" for name, facts in m["providers"].items()),
        f"model     {model['file']}: {formats}",
        f"settings  numerics {s['numerics']}; medians of {s['repetitions']} runs of {s['steps']} decode steps",
    ]
    if m["load"] is not None and m["load"] > BUSY:
        lines.append(f"note      {m['load']} threads ran here over the last minute: on a busy machine figures are too low")
    if not model["tokenizer"]:
        lines.append("note      the model has no tokenizer: prompts are ids, and no text is made")
    return lines


def figures_table(figures: Sequence[Measured]) -> Table:
    """A row a figure: median, least and most of its runs."""
    table = Table()
    for name in ("figure", "median", "least", "most"):
        table.add_column(name, justify="left" if name == "figure" else "right")
    table.add_column("unit")
    table.add_column("note", overflow="fold")
    for f in figures:
        scale, unit = SCALES.get(f.unit, (1, f.unit))
        values = ("-", "", "") if f.value is None else (text(v / scale) for v in (f.value, min(f.runs), max(f.runs)))
        table.add_row(f.name, *values, unit, f.note)
    return table


def ops_table(case: str, times: Sequence[OpTime]) -> Table:
    """A row an op, the longest first."""
    table = Table(title=f"ops of {case}, one by one")
    table.add_column("op")
    for name in ("calls", "us a call", "share"):
        table.add_column(name, justify="right")
    for t in times:
        table.add_row(t.op, str(t.calls), f"{1e6 * t.seconds / t.calls:.1f}", f"{t.share:.1%}")
    return table


def text(value: float) -> str:
    """Three digits that count, and no more."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def line(figure: Measured) -> str:
    """One figure as it comes in."""
    scale, unit = SCALES.get(figure.unit, (1, figure.unit))
    return f"{figure.name}: {f'{text(figure.value / scale)} {unit}' if figure.value is not None else figure.note}"
