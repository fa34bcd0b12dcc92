"""Reports on a Record, one file a format, each with `render(record) -> str`."""

from __future__ import annotations

from importlib import import_module

from vtcore.conformance.record import Record

NAMES = ("text", "json", "junit", "markdown", "html")


def render(name: str, record: Record) -> str:
    """A record in one of the formats."""
    return str(import_module(f"vtcore.conformance.reports.{name}").render(record))
