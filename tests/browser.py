"""A real browser, without a window, for pages that the project writes: Chromium, driven through its debugging pipe.

    with Browser() as browser:
        page = browser.open(path, width=400, dark=True)
        page.screenshot(tmp_path / "page.png")

The protocol is Chrome's DevTools protocol, JSON between zero bytes on file descriptors 3 (to it) and 4 (from it)."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.patience import SECONDS

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MISSING = f"pages are looked at in a browser: `apt-get install chromium`, or set CHROMIUM to the path of one; none of {NAMES} is on PATH"
OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--mute-audio", "--no-first-run",
    "--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe",
)  # fmt: skip
KEYS = {
    "Tab": 9,
    "Enter": 13,
    "Escape": 27,
    " ": 32,
    "End": 35,
    "Home": 36,
    "ArrowUp": 38,
    "ArrowLeft": 37,
    "ArrowRight": 39,
    "ArrowDown": 40,
}
CONTRAST = """
(() => {
  const numbers = (c) => c.match(/[\\d.]+/g).map(Number);
  const over = (top, under) => { const a = top[3] ?? 1; return [0, 1, 2].map((i) => top[i] * a + under[i] * (1 - a)); };
  const background = (e) => {
    if (!e) return [255, 255, 255];
    const c = numbers(getComputedStyle(e).backgroundColor);
    return (c[3] ?? 1) === 1 ? c.slice(0, 3) : over(c, background(e.parentElement));
  };
  const light = (c) => { const [r, g, b] = c.map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const poor = [];
  for (const e of document.body.querySelectorAll("*")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.checkVisibility() || e.closest("svg, script, style")) continue;
    const under = background(e), text = over(numbers(getComputedStyle(e).color), under);
    const [a, b] = [light(text), light(under)].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) poor.push(`${e.tagName}.${e.className} ${e.textContent.trim().slice(0, 30)}: ${ratio.toFixed(2)}`);
  }
  return poor;
})()"""


def chromium() -> str:
    """The browser's path. Fails with what to install where there is none."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    assert found, MISSING
    return found


class Browser:
    """A browser with a fresh profile, for as long as its block is open."""

    def __enter__(self) -> Browser:
        self._profile = tempfile.TemporaryDirectory(prefix="browser", ignore_cleanup_errors=True)
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        script = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        command = ["bash", "-c", script, "bash", chromium(), *OPTIONS, f"--user-data-dir={self._profile.name}", "about:blank"]
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, pass_fds=(to_read, to_write), **quiet)
        os.close(to_read)
        os.close(to_write)
        self._numbers, self._rest = itertools.count(1), b""
        self.events: list[dict[str, Any]] = []
        return self

    def __exit__(self, *_: object) -> None:
        self.call("Browser.close")
        os.close(self._write)
        os.close(self._read)
        self._process.wait(SECONDS)
        self._profile.cleanup()

    def open(self, path: Path | str, *, width: int = 1280, height: int = 900, dark: bool = False, scripts: bool = True) -> Page:
        """A file or an address in a tab of its own, of this many CSS pixels, as somebody sees it who prefers light or dark pages."""
        tab = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Network", "Accessibility"):
            page.call(f"{domain}.enable")
        page.call("Page.setLifecycleEventsEnabled", enabled=True)
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        page.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        page.wait(page.call("Page.navigate", url=path if isinstance(path, str) else path.resolve().as_uri())["loaderId"])
        return page

    def call(self, method: str, session: str | None = None, **parameters: Any) -> Any:
        """One command's result; events that come meanwhile are kept."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (answer := self.receive()).get("id") != number:
            self.events.append(answer)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def receive(self) -> dict[str, Any]:
        """The next message."""
        while b"\0" not in self._rest:
            assert select.select([self._read], [], [], SECONDS)[0], "the browser says nothing"
            data = os.read(self._read, 1 << 16)
            assert data, "the browser has ended"
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))


class Page:
    """One tab."""

    def __init__(self, browser: Browser, session: str) -> None:
        self.browser, self.session = browser, session

    def call(self, method: str, **parameters: Any) -> Any:
        """One command to this tab."""
        return self.browser.call(method, self.session, **parameters)

    def wait(self, document: str) -> None:
        """Until this document is loaded: the blank page in its place before it may still be loading, and says so too."""
        while not any(e["name"] == "load" and e["loaderId"] == document for e in self._events("Page.lifecycleEvent")):
            self.browser.events.append(self.browser.receive())

    def _events(self, name: str) -> list[dict[str, Any]]:
        return [e["params"] for e in self.browser.events if e.get("sessionId") == self.session and e["method"] == name]

    def run(self, expression: str) -> Any:
        """What a JavaScript expression gives, as plain data."""
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait for a JavaScript expression to be true."""
        end = time.monotonic() + SECONDS
        while not self.run(f"!!({expression})"):
            assert time.monotonic() < end, f"not so after {SECONDS} s: {expression}; {self.run('document.body.innerText')}"
            time.sleep(0.02)

    def point(self, expression: str) -> None:
        """Move the mouse onto an element."""
        x, y = self.run(f"(() => {{ const r = ({expression}).getClientRects()[0]; return [r.x + r.width / 2, r.y + r.height / 2]; }})()")
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def key(self, name: str, shift: bool = False) -> None:
        """Press and let go of a key."""
        pressed = {"key": name, "code": "Space" if name == " " else name, "windowsVirtualKeyCode": KEYS[name], "modifiers": 8 * shift}
        text = {"text": {"Enter": "\r", " ": " "}[name]} if name in ("Enter", " ") else {}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **pressed, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **pressed)

    def type(self, text: str) -> None:
        """Text into what has the focus."""
        self.call("Input.insertText", text=text)

    def screenshot(self, path: Path) -> bytes:
        """The whole page, also what one has to scroll to, as a PNG file."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 16000), "scale": 1}
        data = base64.b64decode(self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)["data"])
        path.write_bytes(data)
        return data

    def tree(self) -> list[dict[str, str]]:
        """What a screen reader is told: role and name of each node, in order."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        shown = [n for n in nodes if not n.get("ignored")]
        return [{"role": n["role"]["value"], "name": n.get("name", {}).get("value", "")} for n in shown]

    @property
    def requests(self) -> list[str]:
        """Every address that was asked for, besides the page itself."""
        return [e["request"]["url"] for e in self._events("Network.requestWillBeSent")[1:]]

    @property
    def errors(self) -> list[str]:
        """What scripts raised, and what the console was told."""
        return [str(e) for name in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled") for e in self._events(name)]

    @property
    def poor_contrast(self) -> list[str]:
        """Texts under the 4.5 to 1 of WCAG 2 (1.4.3, level AA)."""
        return list(self.run(CONTRAST))
