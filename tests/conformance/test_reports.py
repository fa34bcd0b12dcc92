"""Every report holds what went wrong, in its own format."""

import json
from xml.etree import ElementTree

import numpy as np
import pytest

from vtcore.conformance.case import cases
from vtcore.conformance.check import check
from vtcore.conformance.record import Record
from vtcore.conformance.reports import render
from vtcore.conformance.verdict import KINDS, OUTCOMES, Difference, Verdict
from vtcore.op import REGISTRY
from vtcore.provider import Provider
from vtcore.tensor import of


@pytest.fixture(scope="module")
def record():
    provider = Provider("mine")
    provider.kernel(REGISTRY["scale"], declines=lambda x, factor: "rows are wide" if x.shape[-1] > 1000 else None)(
        lambda x, factor: of(np.zeros(x.shape, np.float32))
    )
    verdicts = list(check(provider, ["scale"]))
    first = next(v for v in verdicts if v.bad)
    verdicts[verdicts.index(first)] = first.known("not yet")
    verdicts.append(Verdict(next(cases(REGISTRY["add"])), "mine", "error", "ValueError: \x00 & <none>", kind="raised"))
    return Record("./mine.py", 0, verdicts=verdicts, stale=["gaps.txt:3: mul"], saved={"scale#3": "failed/scale-3.npz"})


def test_json_holds_every_verdict(record):
    read = json.loads(render("json", record))
    assert (read["provider"], read["failed"], read["stale"]) == ("./mine.py", True, ["gaps.txt:3: mul"])
    assert {v["outcome"] for v in read["verdicts"]} == set(OUTCOMES)
    assert sum(read["counts"].values()) == len(read["verdicts"]) == len(record.verdicts)
    failed = next(v for v in read["verdicts"] if v["outcome"] == "fail")
    assert failed["kind"] in KINDS
    assert failed["worst"]["error"] > failed["worst"]["bound"] > 0
    assert failed["bound_at"].startswith("vtcore/ops/elementwise.py:")
    assert failed["again"].startswith("vtcore check ./mine.py scale --case")


def test_numbers_that_json_lacks_are_text():
    shown = Difference("result", (0,), np.float32(np.nan), np.float32(np.inf), np.inf, 0.0).as_dict()
    assert json.loads(json.dumps(shown, allow_nan=False))["got"] == "nan"


def test_junit_is_xml_with_a_test_a_case(record):
    root = ElementTree.fromstring(render("junit", record))
    assert len(root.findall(".//testcase")) == len(record.verdicts) + 1  # and the stale line
    assert len(root.findall(".//skipped")) == len([v for v in record.verdicts if v.outcome in ("declined", "known_gap")])
    assert root.find(".//error").get("message") == "ValueError: ? & <none>"
    assert {f.get("type") for f in root.findall(".//failure")} == {"wrong_value", None}


def test_text_and_markdown_show_how_to_run_a_failure_again(record):
    for name in ("text", "markdown"):
        text = render(name, record)
        assert "vtcore check ./mine.py add --case 0 --seed 0" in text
        assert "stale known gap" in text
    assert "case = load('failed/scale-3.npz')" in render("text", record)


@pytest.mark.parametrize("name", ["text", "markdown", "junit"])
def test_a_check_in_which_nothing_ran_has_failed(name):
    idle = Record("./mine.py", 0, verdicts=[Verdict(next(cases(REGISTRY["add"])), "mine", "declined", "no")])
    assert idle.failed
    assert "nothing ran" in render(name, idle)
