"""One HTML file about one provider or several: nothing is loaded from anywhere, and it says everything without scripts as well."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import jinja2

from vtcore.conformance.record import Record
from vtcore.conformance.reports import json as as_json
from vtcore.conformance.reports.page_model import STATES, Column, Race

STATE_ORDER = tuple(STATES)


def render(record: Record) -> str:
    """The page of one check."""
    return page([Column.of(json.loads(as_json.render(record)), record.provider)])


def page(columns: Sequence[Column], races: Sequence[Race] = ()) -> str:
    """The page of several checks beside each other, and of kernels that were timed."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("vtcore.conformance.reports", "page"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"figure": figure, "anchor": anchor}
    ops = sorted({op for column in columns for op in column.cells})
    failed = any(column.data.get("failed") for column in columns)
    used = {column.cell(op).state for column in columns for op in ops}
    states = {name: STATES[name] for name in STATE_ORDER if name in used}
    return environment.get_template("page.html").render(columns=columns, ops=ops, races=races, failed=failed, states=states)


def figure(value: Any) -> str:
    """A number with three digits that count."""
    return "" if value is None else f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def anchor(text: str) -> str:
    """Text as part of an id."""
    return "".join(c if c.isalnum() or c in "_-" else "-" for c in text)
