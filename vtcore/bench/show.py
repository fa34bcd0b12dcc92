"""A result as tables for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vtcore.bench.machine import BUSY
from vtcore.bench.measured import Measured
from vtcore.bench.run import Result
from vtcore.bench.suite import OpTime

LEFT = frozenset({"figure", "unit", "note", "op"})  # columns of words; numbers stand to the right
CHOSEN = ("numerics", "dtype", "kv_cache_dtype", "block_size", "max_num_batched_tokens", "memory_limit")  # named where they were chosen
SCALES = {"bytes": (1 << 20, "MiB")}  # unit -> what a person's unit holds of it, and its name


def show(result: Result) -> None:
    """Print all of it."""
    for line in headings(result):
        print(line)
    if result.figures:
        print("", *table(("figure", "median", "least", "most", "unit", "note"), figures_rows(result.figures)), sep="\n")
    for case, times in result.ops.items():
        print(f"\nops of {case}, one by one", *table(("op", "calls", "us a call", "share"), ops_rows(times)), sep="\n")


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines of text: columns as wide as what they hold."""
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    for row in (columns, *rows):
        cells = (t.ljust(w) if name in LEFT else t.rjust(w) for name, t, w in zip(columns, row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def headings(result: Result) -> list[str]:
    """The machine, the model, the settings."""
    m, model, s = result.machine, result.model, result.settings
    packages = ", ".join(f"{n} {v}" for n, v in m["packages"].items() if v)
    formats = ", ".join(f"{name} {nbytes >> 20} MiB" for name, nbytes in model["formats"].items())
    chosen = ", ".join(f"{name} {s[name]}" for name in CHOSEN if s[name] is not None)
    lines = [
        f"machine   {m['processor']}, {m['cores']} cores, {m['architecture']}",
        f"versions  Python {m['python']}, {packages}",
        *(f"provider  {name}: {'; '.join(f'{k}: {v}' for k, v in facts.items()) or 'no facts'}" for name, facts in m["providers"].items()),
        f"model     {model['file']}: {formats}",
        f"settings  {chosen}; medians of {s['repetitions']} runs of {s['steps']} decode steps",
    ]
    if m["load"] is not None and m["load"] > BUSY:
        lines.append(f"note      {m['load']} threads ran here over the last minute: on a busy machine figures are too low")
    if not model["tokenizer"]:
        lines.append("note      the model has no tokenizer: prompts are ids, and no text is made")
    return lines


def figures_rows(figures: Sequence[Measured]) -> list[tuple[str, ...]]:
    """A row a figure: median, least and most of its runs."""
    rows = []
    for f in figures:
        scale, unit = SCALES.get(f.unit, (1, f.unit))
        values = ("-", "", "") if f.value is None else tuple(text(v / scale) for v in (f.value, min(f.runs), max(f.runs)))
        rows.append((f.name, *values, unit, f.note))
    return rows


def ops_rows(times: Sequence[OpTime]) -> list[tuple[str, ...]]:
    """A row an op, the longest first."""
    return [(t.op, str(t.calls), f"{1e6 * t.seconds / t.calls:.1f}", f"{t.share:.1%}") for t in times]


def text(value: float) -> str:
    """Three digits that count, and no more."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def line(figure: Measured) -> str:
    """One figure as it comes in."""
    scale, unit = SCALES.get(figure.unit, (1, figure.unit))
    return f"{figure.name}: {f'{text(figure.value / scale)} {unit}' if figure.value is not None else figure.note}"
