"""A comparison as one HTML page: no scripts, nothing from the network, every token a cell that keyboards and screen readers reach."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from jinja2 import Environment, StrictUndefined, Template

from vtcore.oracle.comparison import describe
from vtcore.oracle.reports.cleaned import cleaned
from vtcore.oracle.reports.table import spelled, summary
from vtcore.oracle.verdict import Comparison, Kind, Outcome, Place, PromptVerdict

SHADES = 5  # steps of the map, from no difference to the tolerance


def as_html(comparison: Comparison) -> str:
    """The page."""
    return cleaned(_rendered(comparison))


def _rendered(comparison: Comparison) -> str:
    return _template().render(
        c=comparison,
        summary=summary(comparison),
        recorded=spelled(comparison.recorded),
        engine=spelled(comparison.engine),
        outcomes=[(o, comparison.count(o)) for o in reversed(Outcome)],
        prompts=[_prompt(v, comparison) for v in comparison.verdicts],
        kinds=list(Kind),
    )


@cache
def _template() -> Template:
    source = (files("vtcore.oracle.reports") / "page.html.j2").read_text(encoding="utf-8")
    return Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True).from_string(source)


def _prompt(v: PromptVerdict, c: Comparison) -> dict[str, object]:
    cells = [{"text": p.wanted_text, "kind": p.kind, "shade": shade(p, c.tolerances.logprob), "about": about(p)} for p in v.places]
    apart = [p for p in v.places if p.kind.wrong or p.kind is Kind.NEAR]
    return {"v": v, "cells": cells, "apart": apart}


def shade(place: Place, tolerance: float) -> int:
    """From 0, no difference or none known, to SHADES - 1, all of the tolerance."""
    if place.difference is None or tolerance <= 0:
        return 0
    return min(SHADES - 1, round(abs(place.difference) / tolerance * (SHADES - 1)))


def about(place: Place) -> str:
    """A cell in words."""
    if place.kind in (Kind.SAME, Kind.MISSING):
        off = "" if place.difference is None else f", log probability {place.difference:+.2g}"
        return f"token {place.position} {place.wanted_text}: {place.kind.value}{off}"
    return f"{place.kind.value}: {describe(place)}"
