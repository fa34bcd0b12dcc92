"""Reports: the same verdicts as a table, JSON, JUnit and a page."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from tests.oracle.test_comparison import ANSWER, GOOD, LIMITS, RECORDING
from vtcore.oracle.comparison import judge
from vtcore.oracle.followed import Followed, Said
from vtcore.oracle.reports.html import SHADES, as_html, shade
from vtcore.oracle.reports.json import as_json
from vtcore.oracle.reports.junit import as_junit
from vtcore.oracle.reports.table import table
from vtcore.oracle.verdict import Comparison, FirstLayer

NASTY = "<script>alert(1)</script> \x00\ud800&"


@pytest.fixture
def comparison():
    said = [(Said(0, {0: -0.45}), GOOD), (Said(1, {1: -0.55, 0: -0.58}), GOOD), (Said(2), GOOD), (Said(0), None)]
    verdicts = [judge(RECORDING, replace(ANSWER, name=f"{i} {NASTY}"), Followed(tuple(s), "so"), LIMITS) for i, s in enumerate(said, 1)]
    verdicts[2] = replace(verdicts[2], first_layer=FirstLayer(4, 9, 0.25), layers_compared=True)
    return Comparison("a.safetensors", "tiny", {"name": "vtcore"}, {"name": NASTY}, "float32", LIMITS, tuple(verdicts), ("a note",))


def test_the_table(comparison):
    lines = table(comparison).splitlines()
    assert lines[3] == "note       a note"
    assert [line.split("&")[1].split()[:2] for line in lines[6:10]] == [
        ["EXACT", "2/2"], ["NEAR_TIE", "1/2"], ["DIVERGED", "1/2"], ["NOT_COMPARED", "1/2"],
    ]  # fmt: skip
    assert "layer 4 is the first off, at position 9 by 0.25" in lines[8]
    assert lines[-1] == "1 EXACT, 1 NEAR_TIE, 1 NOT_COMPARED, 1 DIVERGED: fail (7 of 8 tokens could be compared)"
    passing = replace(comparison, verdicts=comparison.verdicts[:2])
    assert table(passing).splitlines()[-1] == "1 EXACT, 1 NEAR_TIE: pass"


def test_json_has_every_token(comparison):
    said = json.loads(as_json(comparison))
    assert (said["passed"], said["counts"]["NEAR_TIE"], said["tolerances"]["near_tie"]) == (False, 1, 0.2)
    assert [p["outcome"] for p in said["prompts"]] == ["EXACT", "NEAR_TIE", "DIVERGED", "NOT_COMPARED"]
    assert [t["kind"] for t in said["prompts"][1]["tokens"]] == ["near tie", "same"]
    assert said["prompts"][2]["first"] == 0
    assert said["prompts"][2]["first_layer"] == {"layer": 4, "position": 9, "error": 0.25}


def test_junit_tells_failures_from_errors(comparison):
    suite = ET.fromstring(as_junit(comparison)).find("testsuite")
    assert [suite.get(n) for n in ("tests", "failures", "errors")] == ["4", "1", "1"]
    assert [[child.tag for child in case] for case in suite.findall("testcase")] == [[], ["system-out"], ["failure"], ["error"]]
    assert suite.find("testcase/failure").get("message").startswith("DIVERGED: token 0")


class Page(HTMLParser):
    """What a browser would see of it."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_needs_nothing_and_hides_nothing(comparison):
    text = as_html(comparison)
    page = Page(text)
    assert page.open == []
    assert not {"script", "img", "link", "iframe", "object"} & set(page.tags)
    assert not any((n in ("src", "style") and "http" in str(v)) or n.startswith("on") for _, a in page.attributes for n, v in a.items())
    assert "http" not in text
    assert "prefers-color-scheme: dark" in text
    cells = [a for tag, a in page.attributes if tag == "li" and "aria-label" in a]
    assert len(cells) == 8
    assert [a["class"].split()[0] for a in cells] == ["SAME", "SAME", "NEAR", "SAME", "APART", "SAME", "SAME", "MISSING"]
    assert [a["aria-label"] for a in cells if a.get("tabindex") == "0"] == [
        "near tie: token 0: 'one' instead of 'zero', which is recorded 0.1 above it, the engine puts it 0.03 above",
        "diverged: token 0: #2 instead of 'zero', which is recorded 8.5 above it",
    ]
    assert dict(page.attributes[0][1])["lang"] == "en"


def test_a_darker_cell_is_further_off(comparison):
    place = comparison.verdicts[0].places[0]
    shades = [shade(replace(place, difference=d), 0.1) for d in (None, 0.0, 0.02, -0.05, 0.075, 0.1, 9.0)]
    assert shades == [0, 0, 1, 2, 3, SHADES - 1, SHADES - 1]
    assert shade(replace(place, difference=1.0), 0.0) == 0


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_in_a_browser(comparison, browser, tmp_path, dark, width):
    path = tmp_path / "page.html"
    path.write_text(as_html(comparison), encoding="utf-8")
    page = browser.open(path, width=width, dark=dark, scripts=False)
    assert page.screenshot(tmp_path / "page.png").startswith(b"\x89PNG")
    assert page.poor_contrast == []
    assert page.requests == []
    assert page.errors == []
    assert page.run("document.documentElement.scrollWidth <= innerWidth")
    names = [n["name"] for n in page.tree() if n["role"] in ("listitem", "ListItem", "listItem")]
    assert any(n.startswith("near tie: token 0") for n in names)


def test_the_keyboard_reaches_every_token_that_differs(comparison, browser, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(as_html(comparison), encoding="utf-8")
    page = browser.open(path)
    reached = []
    for _ in range(40):
        page.key("Tab")
        reached.append(page.run("document.activeElement.ariaLabel || document.activeElement.textContent.trim()"))
    assert any(r.startswith("near tie: token 0") for r in reached)
    assert any(r.startswith("diverged: token 0") for r in reached)
