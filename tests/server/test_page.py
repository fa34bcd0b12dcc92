"""The chat page, in a real browser on a real server: by mouse, by keyboard only, in light and dark, narrow and wide."""

import json
import os
import signal
import struct

import pytest

from tests.checkpoints import random_llama
from tests.cli.conftest import TEMPLATE, write_tokenizer
from tests.gate import Gate
from tests.server.conftest import serving

ANSWERED = "document.querySelectorAll('.assistant .figures').length == {}"
TEXT = "document.querySelector('.assistant:last-child .text').textContent"
FOCUS = "document.activeElement.id || document.activeElement.className || document.activeElement.tagName"
KEY = "a-key"


@pytest.fixture(scope="module")
def the_gate(tmp_path_factory):
    return Gate(tmp_path_factory.mktemp("gate"))


@pytest.fixture
def gate(the_gate):
    """Of the server's engine; open again after a test."""
    yield the_gate
    the_gate.open()


@pytest.fixture(scope="module")
def page_server(tmp_path_factory, the_gate):
    """One whose answers can be long enough to be stopped."""
    directory = random_llama(tmp_path_factory.mktemp("page"), max_position_embeddings=16384)
    write_tokenizer(directory, TEMPLATE)
    (directory / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))  # no end: answers are as long as asked
    with serving(directory, tmp_path_factory.mktemp("s"), *the_gate.options, at_port=True) as made:
        yield made
        made.check_idle()


@pytest.fixture
def shown(browser, page_server):
    """The page, ready, with short answers set."""
    return ready(browser.open(page_server.address))


def ready(page):
    page.until("document.getElementById('state').textContent == 'ready'")
    settings(page, max_tokens=12, seed=1)
    page.run("document.getElementById('prompt').focus()")
    return page


def settings(page, **values):
    for name, value in values.items():
        page.run(f"document.querySelector('[name={name}]').value = '{value}'")


def say(page, text):
    page.type(text)
    page.key("Enter")


def test_a_conversation_is_sent_whole_and_its_figures_are_told(shown):
    say(shown, "hi")
    shown.until(ANSWERED.format(1))
    first = shown.run(TEXT)
    assert first
    say(shown, "more")
    shown.until(ANSWERED.format(2))
    figures = shown.run("document.querySelector('.assistant:last-child .figures').textContent")
    assert "12 tokens · " in figures
    assert " tokens/s" in figures
    assert "from the prefix cache" in figures
    asked = int(figures.split()[0])
    assert asked > len("[user]hi[assistant][user]more[assistant]")  # and the first answer's bytes
    assert shown.run("document.getElementById('said').textContent").startswith("Answer: ")
    assert (shown.errors, shown.run("document.getElementById('prompt').value")) == ([], "")
    shown.run("document.getElementById('new').click()")
    assert shown.run("document.getElementById('log').children.length") == 0


def test_text_appears_while_it_comes_and_stops_when_told(shown, page_server, gate):
    settings(shown, max_tokens=16000)
    gate.shut(lookups=400)
    say(shown, "hi")
    shown.until(f"{TEXT}.length > 20")
    assert shown.run("document.querySelector('.assistant').getAttribute('aria-busy')") == "true"
    assert shown.run("document.getElementById('send').disabled")
    shown.run("document.getElementById('stop').click()")
    shown.until(ANSWERED.format(1))
    gate.open()
    assert shown.run("document.querySelector('.figures').textContent").endswith("stopped")
    assert shown.run(FOCUS) == "prompt"
    page_server.check_idle()


def test_a_flood_of_tokens_leaves_the_page_usable(shown):
    """Frames that are always there already, as from a fast server on the same machine: reading them never waits for anything."""
    token = {"token": "word ", "logprob": 0.0, "bytes": list(b"word "), "top_logprobs": []}
    frame = {"choices": [{"index": 0, "delta": {"content": "word "}, "logprobs": {"content": [token]}, "finish_reason": None}]}
    shown.run(f"""(() => {{
      const [real, bytes] = [fetch, new TextEncoder().encode("data: " + JSON.stringify({json.dumps(frame)}) + "\\n\\n")];
      const flood = (signal) => new ReadableStream({{
        pull: (to) => signal.aborted ? to.error(new DOMException("stopped", "AbortError")) : to.enqueue(bytes) }});
      window.fetch = async (path, options) => path.endsWith("completions") ? new Response(flood(options.signal)) : real(path, options);
    }})()""")
    say(shown, "hi")
    shown.until(f"{TEXT}.length > 1000")
    assert shown.run("document.querySelector('.assistant').getAttribute('aria-busy')") == "true"
    shown.run("document.getElementById('stop').click()")
    shown.until(ANSWERED.format(1))
    assert shown.run("document.querySelector('.figures').textContent").endswith("stopped")


def test_probabilities_are_shown_by_mouse_and_by_keyboard(shown):
    say(shown, "hi")
    shown.until(ANSWERED.format(1))
    assert shown.run("document.getElementById('tip').hidden")
    shown.point("document.querySelectorAll('.token')[2]")
    shown.until("!document.getElementById('tip').hidden")
    lines = shown.run("[...document.querySelectorAll('#tip tr')].map((r) => r.innerText)")
    assert len(lines) >= 5
    assert all(" %" in line for line in lines)
    assert shown.run("document.querySelectorAll('#tip .chosen').length") >= 1
    shown.point("document.querySelector('h1')")
    shown.until("document.getElementById('tip').hidden")
    assert shown.run("[...document.querySelectorAll('.token')].filter((t) => t.tabIndex == 0).length") == 1
    shown.run("document.querySelector('.token').focus()")
    for key, place in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("Home", 0)):
        shown.key(key)
        assert shown.run("[...document.querySelectorAll('.token')].indexOf(document.activeElement)") == place
        assert not shown.run("document.getElementById('tip').hidden")
    assert shown.run("[...document.querySelectorAll('.token')].map((t) => t.textContent).join('')") == shown.run(TEXT)
    shown.key("Escape")
    assert shown.run("document.getElementById('tip').hidden")


def test_a_keyboard_is_enough(browser, page_server, gate):
    page = browser.open(page_server.address)
    page.until("document.getElementById('state').textContent == 'ready'")
    seen = []
    for _ in range(60):
        page.key("Tab")
        seen.append(page.run(FOCUS))
        if seen[-1] == "BODY":
            break
        assert page.run("getComputedStyle(document.activeElement).outlineStyle") != "none", seen
    assert seen[:4] == ["skip", "new", "prompt", "send"]
    assert seen.count("SUMMARY") == 5
    page.key("Tab")
    assert page.run(FOCUS) == "skip"
    page.key("Enter")
    assert page.run(FOCUS) == "prompt"
    settings(page, max_tokens=12)
    say(page, "hi")
    page.until(ANSWERED.format(1))
    settings(page, max_tokens=16000)
    gate.shut(lookups=400)
    say(page, "long")
    page.until("document.querySelectorAll('.token').length > 30")
    page.key("Escape")
    page.until(ANSWERED.format(2))


def test_it_tells_what_ran_where(shown):
    say(shown, "hi")
    shown.until(ANSWERED.format(1))
    shown.until("[...document.querySelectorAll('#ran tbody tr')].some((r) => r.cells[0].textContent == 'linear')")
    words = shown.run("document.getElementById('server').textContent")
    assert "Prefix-cache hits" in words
    assert "KV cache in use" in words
    assert "16,384 tokens" in words
    assert shown.run("document.getElementById('model').textContent") == "tiny"


def test_what_is_wrong_is_said_and_the_message_is_kept(shown):
    settings(shown, stop="x" * 5000)
    say(shown, "hi")
    shown.until("document.querySelector('[role=alert].error:not([hidden])')")
    assert "stop" in shown.run("document.querySelector('#log .error').textContent")
    assert shown.run("document.getElementById('prompt').value") == "hi"
    settings(shown, stop="", temperature="-1")
    shown.key("Enter")
    assert shown.run("document.querySelectorAll('.user').length") == 1


def test_markup_is_text(shown):
    nasty = "<img src=x onerror=alert(1)><b>bold</b>"
    say(shown, nasty)
    shown.until(ANSWERED.format(1))
    assert shown.run("document.querySelector('.user .text').textContent") == nasty
    assert shown.run("document.querySelectorAll('img, b').length") == 0
    shown.run("{ const s = document.createElement('script'); s.textContent = 'window.injected = 1'; document.body.append(s); }")
    assert shown.run("window.injected") is None


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_it_can_be_read_at_every_width_in_light_and_dark(browser, page_server, width, dark, tmp_path):
    page = ready(browser.open(page_server.address, width=width, dark=dark))
    say(page, "hi")
    page.until(ANSWERED.format(1))
    page.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    page.run("document.querySelector('.token').focus()")
    image = page.screenshot(tmp_path / "page.png")
    assert struct.unpack(">I", image[16:20]) == (width,)
    assert page.run("document.documentElement.scrollWidth") <= width
    assert (page.poor_contrast, page.errors) == ([], [])
    assert all(address.startswith((page_server.address, "data:")) for address in page.requests)
    paper = page.run("getComputedStyle(document.documentElement).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") is not dark


def test_a_screen_reader_hears_names(shown):
    say(shown, "hi")
    shown.until(ANSWERED.format(1))
    told = {(n["role"], n["name"]) for n in shown.tree()}
    controls = {("textbox", "Message"), ("button", "Send"), ("button", "Stop"), ("list", "Conversation"), ("textbox", "API key")}
    assert controls <= told
    nameless = [n for n in shown.tree() if n["role"] in ("button", "textbox", "spinbutton", "checkbox", "meter") and not n["name"]]
    assert nameless == []


def test_a_dead_engine_and_a_key(browser, page_server, model, tmp_path):
    gate = Gate(tmp_path / "gate")
    with serving(model, tmp_path, "--api-key", KEY, *gate.options, at_port=True) as server:
        page = browser.open(server.address)
        page.until("document.getElementById('state').textContent == 'needs an API key'")
        page.run("document.querySelector('[name=key]').focus()")
        page.type(KEY)
        page.key("Tab")
        ready(page)
        settings(page, max_tokens=400)
        gate.shut()
        gate.keep_out()
        say(page, "hi")
        server.wait_for_load(1)
        assert page.run("document.querySelectorAll('.assistant.busy').length") == 1
        os.kill(server.engine(), signal.SIGKILL)
        page.until("document.querySelector('#log .error')")
        page.until("document.getElementById('state').textContent == 'engine not ready'")
        gate.open()
        gate.let_in()
        assert "started again" in page.run("document.querySelector('#log .error').textContent")
        assert page.run("document.getElementById('prompt').value") == "hi"
        page.until("document.getElementById('state').textContent == 'ready'")
        page.key("Enter")
        page.until("document.querySelectorAll('.assistant .figures').length == 2 && !document.querySelector('.busy')")
        assert page.run("sessionStorage.getItem('key')") == KEY
        headers = server.client.get("/").headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert [server.client.get(path).status_code for path in ("/page/main.js", "/page/none.js", "/stats")] == [200, 401, 401]
