"""A known gap is data with a reason, and a line that is none is reported."""

import pytest

from vtcore.conformance.case import cases
from vtcore.conformance.gaps import Gaps
from vtcore.conformance.verdict import Verdict
from vtcore.errors import ArgumentError
from vtcore.op import REGISTRY


def verdicts():
    scale, add = list(cases(REGISTRY["scale"]))[:3], list(cases(REGISTRY["add"]))[:2]
    return [Verdict(scale[0], "mine", "pass"), Verdict(scale[1], "mine", "fail", "off", kind="wrong_value")] + [
        Verdict(c, "mine", "error", "no", kind="raised") for c in add
    ]


def gaps(tmp_path, text):
    (tmp_path / "gaps.txt").write_text(text)
    return Gaps(tmp_path / "gaps.txt")


def test_an_op_and_a_case_can_be_listed(tmp_path):
    listed = gaps(tmp_path, "# of the first release\n\nscale#1   one row\nadd two shapes\n")
    seen = [listed.seen(v) for v in verdicts()]
    assert [v.outcome for v in seen] == ["pass", "known_gap", "known_gap", "known_gap"]
    assert seen[1].reason == "one row (wrong_value: off)"
    assert listed.stale(seen) == []


def test_a_line_that_no_longer_fails_is_stale(tmp_path):
    listed = gaps(tmp_path, "scale#0 was wrong\nmul not run here\n")
    (line,) = listed.stale([listed.seen(v) for v in verdicts()])
    assert line.endswith("gaps.txt:1: scale#0: was wrong")


@pytest.mark.parametrize(
    ("text", "words"), [("scale\n", "scale has no reason"), ("scael x\n", "there is no op 'scael'"), ("#3 x\n", "no op ''")]
)
def test_a_wrong_line_is_refused(tmp_path, text, words):
    with pytest.raises(ArgumentError, match=words):
        gaps(tmp_path, text)


def test_there_must_be_a_file(tmp_path):
    with pytest.raises(ArgumentError, match="can't be read"):
        Gaps(tmp_path / "none.txt")


def test_of_one_case_an_op_s_line_says_nothing(tmp_path):
    listed = gaps(tmp_path, "scale was wrong\nscale#0 was wrong\nscale#99 is no more\n")
    one = verdicts()[:1]
    assert [line.split(": ")[1] for line in listed.stale(one, whole=False)] == ["scale#0"]
    assert [line.split(": ")[1] for line in listed.stale(one)] == ["scale", "scale#0", "scale#99"]
