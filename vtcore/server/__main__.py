"""The engine's process: `python -m vtcore.server ENDPOINT MODEL OPTIONS`."""

from __future__ import annotations

import sys

from vtcore.collector import loading
from vtcore.errors import VtcoreError


def main(endpoint: str, model: str, options: str) -> None:
    """Import, load, and serve."""
    with loading():
        from vtcore.server.worker import load, work

        llm = load(model, options)
    work(llm, endpoint)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:4])
    except (VtcoreError, OSError) as wrong:
        sys.exit(f"vtcore: error: {wrong}")
