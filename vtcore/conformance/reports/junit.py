"""JUnit XML, as CI systems read it: a suite an op, a test a case."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from vtcore.conformance.record import IDLE, Record
from vtcore.conformance.verdict import Verdict

TAGS = {"fail": "failure", "error": "error", "declined": "skipped", "known_gap": "skipped"}
FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd]")  # in XML 1.0


def render(record: Record) -> str:
    """One <testsuites>. A decline and a known gap are skipped tests with the reason; a stale gap is a failure, and so is no call run."""
    root = Element("testsuites", name=f"vtcore check {record.provider}", time=f"{record.seconds:.3f}")
    for op, verdicts in record.by_op.items():
        suite = _suite(root, op, verdicts)
        for verdict in verdicts:
            _case(suite, record, verdict)
    for line in record.stale:
        _failed(root, "known gaps", line, "stale: nothing fails here")
    if record.idle:
        _failed(root, "calls", record.provider, IDLE)
    indent(root)
    return tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(root: Element, op: str, verdicts: list[Verdict]) -> Element:
    tags = [TAGS.get(v.outcome) for v in verdicts]
    numbers = {f"{tag}s" if tag != "skipped" else tag: str(tags.count(tag)) for tag in ("failure", "error", "skipped")}
    return SubElement(root, "testsuite", {"name": op, "tests": str(len(verdicts)), **numbers})


def _failed(root: Element, suite: str, name: str, message: str) -> None:
    """A failure that no case has."""
    inside = SubElement(root, "testsuite", name=suite, tests="1", failures="1")
    SubElement(SubElement(inside, "testcase", name=name, classname=suite), "failure", message=message)


def _case(suite: Element, record: Record, verdict: Verdict) -> None:
    case = verdict.case
    test = SubElement(suite, "testcase", name=case.label, classname=f"{record.provider}.{case.op.name}", time=f"{verdict.seconds:.6f}")
    tag = TAGS.get(verdict.outcome)
    if tag is not None:
        inner = SubElement(test, tag, message=_clean(verdict.reason.splitlines()[0] if verdict.reason else verdict.kind))
        inner.text = _clean(f"{verdict}\n    again: {record.again(verdict)}")
        if verdict.kind:
            inner.set("type", verdict.kind)


def _clean(text: str) -> str:
    return FORBIDDEN.sub("?", text)
