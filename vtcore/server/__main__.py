"""The engine's process: `python -m vtcore.server ENDPOINT MODEL OPTIONS SERVER_PID`."""

from __future__ import annotations

import sys

from vtcore.collector import loading
from vtcore.errors import ArgumentError, VtcoreError
from vtcore.server.process import MISUSED


def main(endpoint: str, model: str, options: str, server: str) -> None:
    """Import, load, and serve. The server may have gone before that: its number tells."""
    with loading():
        from vtcore.server.worker import load, work

        llm = load(model, options)
    work(llm, endpoint, int(server))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:5])
    except (VtcoreError, OSError) as wrong:
        print(f"vtcore: error: {wrong}", file=sys.stderr)
        sys.exit(MISUSED if isinstance(wrong, ArgumentError) else 1)
