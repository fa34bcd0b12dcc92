"""A comparison as JUnit XML, which CI systems show: a test a prompt."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from vtcore.oracle.reports.cleaned import cleaned
from vtcore.oracle.reports.table import spelled
from vtcore.oracle.verdict import Comparison, Outcome, PromptVerdict


def as_junit(comparison: Comparison) -> str:
    """DIVERGED is a failure, NOT_COMPARED an error; a NEAR_TIE that passes has its reason as output."""
    c = comparison
    failures = sum(_fails(v, c) for v in c.verdicts)
    counts = {"tests": len(c.verdicts), "failures": failures, "errors": c.count(Outcome.NOT_COMPARED)}
    root = ET.Element("testsuites")
    suite = ET.SubElement(root, "testsuite", {"name": "vtcore oracle", **{n: str(v) for n, v in counts.items()}})
    about = {"recording": c.recording, "model": c.model, "recorded": spelled(c.recorded), "engine": spelled(c.engine)}
    properties = ET.SubElement(suite, "properties")
    for name, value in about.items():
        ET.SubElement(properties, "property", {"name": name, "value": cleaned(value)})
    for verdict in c.verdicts:
        _case(suite, verdict, _fails(verdict, c))
    ET.indent(root)
    return ET.tostring(root, "unicode", xml_declaration=True) + "\n"


def _fails(v: PromptVerdict, c: Comparison) -> bool:
    return v.outcome is not Outcome.NOT_COMPARED and not c.passes(v.outcome)


def _case(suite: ET.Element, v: PromptVerdict, fails: bool) -> None:
    case = ET.SubElement(suite, "testcase", {"classname": "vtcore.oracle", "name": cleaned(v.name)})
    said = {"message": cleaned(f"{v.outcome.value}: {v.reason}"), "type": v.outcome.value}
    if fails:
        ET.SubElement(case, "failure", said)
    elif v.outcome is Outcome.NOT_COMPARED:
        ET.SubElement(case, "error", said)
    elif v.outcome is Outcome.NEAR_TIE:
        ET.SubElement(case, "system-out").text = said["message"]
