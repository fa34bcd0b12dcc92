"""The HTML page of a check, in a real browser: light and dark, narrow and wide, by keyboard, without scripts, and read aloud."""

import json
import struct

import numpy as np
import pytest

from vtcore import tensor
from vtcore.cli import main
from vtcore.conformance.check import check
from vtcore.conformance.record import Record
from vtcore.conformance.reports import json as as_json
from vtcore.conformance.reports.html import figure, page
from vtcore.conformance.reports.page_model import Cell, Column, Histogram, Race
from vtcore.errors import ArgumentError
from vtcore.op import REGISTRY
from vtcore.provider import Provider
from vtcore.providers import find

OPS = ("add", "argmax", "concat", "rms_norm", "softmax")
NASTY = "<b>not</b> & 'today' <script>alert(1)</script>"


def faulty():
    """Wrong values, exceptions, declines, and a right kernel."""
    provider = Provider("faulty", facts={"made of": "<i>NumPy</i>"})

    def right(name, **call):
        return REGISTRY[name].reference(**{n: tensor.bare(v) for n, v in call.items()})

    def raises(x):
        raise RuntimeError(NASTY)

    provider.kernel(REGISTRY["add"])(lambda **c: tensor.of(right("add", **c)))
    provider.kernel(REGISTRY["argmax"])(raises)
    provider.kernel(REGISTRY["rms_norm"])(lambda **c: tensor.of(right("rms_norm", **c) * np.float32(1.01)))
    provider.kernel(REGISTRY["softmax"], declines=lambda x: "x has few axes" if x.ndim < 3 else None)(
        lambda x: tensor.of(right("softmax", x=x))
    )
    return provider


def checked(provider):
    record = Record(provider.name, 0, facts=provider.facts, version="1.2.3")
    record.verdicts += check(provider, OPS)
    return json.loads(as_json.render(record))


@pytest.fixture(scope="module")
def reports():
    return [checked(faulty()), checked(find("reference"))]


def race(**changes):
    speed = {"provider": "faulty", "seconds": 1e-3, "gbytes": 1.5, "gflops": None, "calls": 9, "checked": 3, "share": 0.25}
    speeds = [speed | {"unshared": "", "wrong": ""}, speed | {"provider": "reference", "seconds": 4e-3, "unshared": "", "wrong": ""}]
    speeds.append(speed | {"provider": "cheat", "unshared": "", "wrong": "timed call 7: it repeats"})
    facts = {"machine": {"processor": "a processor"}, "roofline": {"bandwidth": 1e10, "flops": 1e11, "threads": 2}}
    return {"vtcore_bench_op": 1, "op": "softmax", "call": "softmax(x)", "bound": "memory", "speeds": speeds, **facts} | changes


@pytest.fixture(scope="module")
def file(reports, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    columns = [Column.of(r, "a report") for r in reports]
    path.write_text(page(columns, [Race.of(race(), "a race")]), encoding="utf-8")
    return path


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_it_can_be_read_at_every_width_in_light_and_dark(browser, file, width, dark, tmp_path):
    shown = browser.open(file, width=width, dark=dark)
    shown.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    image = shown.screenshot(tmp_path / "page.png")
    assert struct.unpack(">I", image[16:20]) == (width,)
    assert len(image) > 50_000  # far more than an empty page takes
    assert shown.run("document.documentElement.scrollWidth") <= width
    assert shown.poor_contrast == []
    assert (shown.requests, shown.errors) == ([], [])
    assert shown.run("Math.max(...[...document.querySelectorAll('.map tbody tr')].map((r) => r.offsetHeight))") < 100
    assert shown.run("Math.min(...[...document.querySelectorAll('.map tbody th')].map((r) => r.offsetWidth))") > 80
    paper = shown.run("getComputedStyle(document.documentElement).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") is not dark


def test_it_says_what_was_found(browser, file, reports):
    shown = browser.open(file)
    words = shown.run("document.body.innerText")
    assert "2 of 5 ops have a kernel that passes" in words
    assert "no kernel" in words
    assert "x has few axes" in words
    assert "timed call 7: it repeats" in words
    row = shown.run("[...document.querySelectorAll('.map tbody tr')].find((r) => r.dataset.op == 'softmax').innerText")
    assert "declined" in row
    assert f"{reports[1]['ops']['softmax']['pass']} pass" in row
    speed = shown.run("[...document.querySelectorAll('#speed ~ .wide tbody tr')].map((r) => r.innerText.split(/\\s+/))")
    assert speed[0] == ["faulty", "1,000", "1.5", "25%", "4"]


def test_what_a_kernel_says_is_text_and_nothing_else(browser, file):
    shown = browser.open(file)
    assert shown.run("document.querySelectorAll('b, i, script').length") == 1
    assert NASTY in shown.run("document.body.textContent")


def test_the_keyboard_reaches_and_opens_everything(browser, file):
    shown = browser.open(file)
    focused = "document.activeElement.textContent.trim().replace(/\\s+/g, ' ')"
    shown.key("Tab")
    assert shown.run(focused) == "Skip to the map of ops"
    seen = set()
    for _ in range(200):
        shown.key("Tab")
        name = shown.run("document.activeElement.tagName + ' ' + (document.activeElement.className || document.activeElement.name || '')")
        if name.startswith("BODY"):
            break
        seen.add(name)
        assert shown.run("getComputedStyle(document.activeElement).outlineStyle") != "none", name
    assert {"INPUT text", "SELECT state", "DIV wide", "SUMMARY "} <= seen
    shown.run("document.querySelectorAll('.failure summary')[1].focus()")
    assert not shown.run("document.querySelectorAll('.failure')[1].open")
    shown.key("Enter")
    assert shown.run("document.querySelectorAll('.failure')[1].open")
    assert "vtcore check faulty argmax --case 1 --seed 0" in shown.run("document.querySelectorAll('.failure')[1].innerText")


def test_the_filter_leaves_what_fits(browser, file):
    shown = browser.open(file)
    left = "[...document.querySelectorAll('.map tbody tr')].filter((r) => !r.hidden).map((r) => r.dataset.op)"
    shown.run("document.querySelector('.filter input').focus()")
    shown.type("m")
    assert shown.run(left) == ["argmax", "rms_norm", "softmax"]
    shown.run("{ const s = document.querySelector('select'); s.value = 'fail'; s.dispatchEvent(new Event('input', {bubbles: true})); }")
    assert shown.run(left) == ["argmax", "rms_norm"]
    assert shown.run("document.querySelector('output').textContent") == "2 of 5 ops"


def test_a_link_of_the_map_opens_its_op(browser, file):
    shown = browser.open(file)
    shown.run("document.querySelector('.map a[href=\"#op-softmax\"]').click()")
    shown.until("document.activeElement.parentElement.id == 'op-softmax'")
    assert shown.run("document.getElementById('op-softmax').open")


def test_a_screen_reader_is_told_of_every_part(browser, file):
    tree = browser.open(file).tree()
    named = {(n["role"], n["name"]) for n in tree}
    assert {("heading", n) for n in ("Providers", "Map: op by provider", "Failures", "Declines, by reason", "Speed", "Op by op")} <= named
    assert {"banner", "main", "contentinfo", "navigation"} <= {n["role"] for n in tree}
    assert ("rowheader", "argmax") in named
    assert ("searchbox", "Ops that contain") in named
    assert ("region", "Map of ops by provider") in named
    assert all(n["name"] for n in tree if n["role"] in ("button", "link", "combobox", "searchbox", "region"))


def test_without_scripts_nothing_is_missing(browser, file, reports):
    named = {(n["role"], n["name"]) for n in browser.open(file, scripts=False).tree()}
    assert not {("searchbox", "Ops that contain"), ("button", "Copy")} & named
    assert {("rowheader", "softmax"), ("heading", "Op by op")} <= named
    assert any(f"{reports[1]['ops']['softmax']['pass']} pass" in name for _, name in named)


def test_a_page_is_one_file(file):
    text = file.read_text(encoding="utf-8")
    assert "http://" not in text
    assert "https://" not in text
    assert "src=" not in text
    assert "default-src 'none'" in text


def verdict(outcome, share=None, op="add"):
    return {"op": op, "case": f"{op}#0", "call": f"{op}()", "outcome": outcome, "reason": "", "worst": share and {"share": share}}


@pytest.mark.parametrize(
    ("outcomes", "state", "words"),
    [
        ([], "absent", "not checked"),
        (["pass"], "pass", "1 pass"),
        (["pass", "declined"], "partly", "1 of 2 pass, 1 declined"),
        (["declined"], "declined", "1 declined"),
        (["pass", "known_gap"], "gap", "1 of 2 pass, 1 known gaps"),
        (["pass", "known_gap", "error", "fail"], "fail", "1 of 4 pass, 2 wrong, 1 known gaps"),
    ],
)
def test_an_op_has_one_state(outcomes, state, words):
    cell = Cell("add", [verdict(o) for o in outcomes])
    assert (cell.state, cell.words) == (state, words)


def test_errors_are_counted_in_shares_of_their_bound():
    shares = [0.0, 1e-9, 1e-4, 2e-4, 0.5, 1.0, 1.5, "inf"]
    found = [{**verdict("pass"), "worst": {"share": s}} for s in shares]
    assert Histogram.of(found).counts == (1, 2, 1, 0, 0, 2, 2)
    assert Cell("add", found).worst == float("inf")


def test_what_is_no_report_is_refused(tmp_path, capsys):
    for data in ({}, [], {"provider": "p", "verdicts": [{}]}, {"provider": "p", "verdicts": [verdict("pass") | {"worst": {"share": "x"}}]}):
        with pytest.raises(ArgumentError, match="a\\.json is no report of `vtcore check --format json`"):
            Column.of(data, "a.json")
    for data in ({}, [], race(vtcore_bench_op=2), race(speeds=[{}]), race(speeds=[{**race()["speeds"][0], "seconds": "fast"}])):
        with pytest.raises(ArgumentError, match="no result of `vtcore bench-op --json`"):
            Race.of(data, "b.json")
    for changes in ({"facts": "x"}, {"stale": 3}, {"verdicts": [verdict("pass") | {"kind": 3}]}):
        with pytest.raises(ArgumentError, match="is no report"):
            Column.of({"provider": "p", "verdicts": []} | changes, "a.json")
    for changes in ({"roofline": {}}, {"machine": []}, {"speeds": [race()["speeds"][0] | {"share": "much"}]}):
        with pytest.raises(ArgumentError, match="no result"):
            Race.of(race(**changes), "b.json")
    (tmp_path / "broken.json").write_text("{")
    assert main(["check-page", str(tmp_path / "broken.json"), "-o", str(tmp_path / "page.html")]) == 1
    assert "is not JSON" in capsys.readouterr().err


def test_the_commands_write_pages(reports, tmp_path):
    for name, data in (("a", reports[0]), ("b", reports[1]), ("race", race())):
        (tmp_path / f"{name}.json").write_text(json.dumps(data))
    files = [str(tmp_path / f"{n}.json") for n in ("a", "b")]
    assert main(["check-page", *files, "--bench", str(tmp_path / "race.json"), "-o", str(tmp_path / "page.html")]) == 0
    assert main(["check", "reference", "add", "--format", "html", "--output", str(tmp_path / "one.html")]) == 0
    (tmp_path / "mine.py").write_text(
        "from vtcore.ops import add\nfrom vtcore.provider import Provider\nfrom vtcore.tensor import of\n"
        "provider = Provider('mine')\nprovider.kernel(add)(lambda x, y: of(x.numpy()))\n"
    )
    wrong = [str(tmp_path / "mine.py"), "add", "--no-isolate", "--format", "html", "--output", str(tmp_path / "mine.html")]
    assert main(["check", *wrong, "--save", str(tmp_path / "saved")]) == 1
    assert f"Its inputs are in <code>{tmp_path / 'saved'}/add" in (tmp_path / "mine.html").read_text()
    assert "<title>vtcore check: faulty, reference</title>" in (tmp_path / "page.html").read_text()
    assert "<title>vtcore check: reference</title>" in (tmp_path / "one.html").read_text()


def test_figures_have_three_digits():
    assert [figure(v) for v in (None, 0.0001234, 3, 12345.6)] == ["", "0.000123", "3", "12,346"]
