"""curl, which shows what goes over the wire."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from clients.call import Call, Outcome, Server, gathered

SECONDS = "120"


def ask(call: Call, server: Server) -> Outcome:
    """Make a call. Of a stream, `done` says whether it ended with [DONE]."""
    headers = ["-H", f"Authorization: Bearer {call.key or server.key}", "-H", "Content-Type: application/json"]
    sent = call.raw if call.raw is not None else None if call.body is None else json.dumps(call.body)
    body = [] if sent is None else ["--data-binary", sent]
    command = ["curl", "-sS", "-N", "-m", SECONDS, "-w", "\n%{http_code}", *headers, *body, server.base + call.route]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    text, _, status = said.rpartition("\n")
    return Outcome(int(status), _told(text))


def _told(text: str) -> Any:
    if not text.startswith(("data:", "event:")):
        return json.loads(text) if text.strip() else None
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data:")]
    frames = [json.loads(line) for line in lines if line != "[DONE]"]
    return gathered(frames) | {"done": lines[-1] == "[DONE]"}
