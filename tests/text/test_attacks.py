"""Hostile chat templates end with an error, in bounded memory and time, and the process lives."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import SECONDS
from tests.text.attacks import ATTACKS

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def answers() -> dict[str, str]:
    """What became of each template, in a process of its own with 2 GiB of memory."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.text.attacks"], cwd=ROOT, capture_output=True, text=True, timeout=5 * SECONDS, check=False
    )
    rows = dict(json.loads(line) for line in done.stdout.splitlines())
    assert done.returncode == 0, f"died after {list(rows)[-1:]}: {done.stderr[-500:]}"
    return rows


@pytest.mark.parametrize("name", ATTACKS)
def test_it_is_refused(answers, name):
    assert answers[name].startswith("refused the chat template") or answers[name].startswith(("refused tojson", "refused strftime_now"))
