import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.examples import FENCE, Command, read
from tests.patience import SECONDS

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "docs/accelerators.md",
    "docs/flashinfer-trace.md",
    "docs/kernel-tools.md",
    "docs/add-an-op.md",
    "docs/add-a-provider.md",
    "docs/add-a-model.md",
    "docs/numerics.md",
    "docs/scheduling.md",
    "docs/test-your-kernel.md",
    "docs/batches.md",
    "docs/oracle-in-ci.md",
    "docs/simt.md",
    "docs/write-a-kernel.md",
)


def run(command: Command, directory: Path) -> str:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100"}
    options = {"cwd": directory, "env": environment, "stdin": subprocess.DEVNULL, "timeout": 5 * SECONDS}
    done = subprocess.run(["bash", "-c", command.line], capture_output=True, text=True, **options)
    return done.stdout if done.returncode == 0 else f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("name", PAGES)
def test_what_the_page_shows_happens(name, tmp_path):
    page = read(ROOT / name)
    for file, text in page.files.items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    for snippet in page.snippets:
        subprocess.run([sys.executable, "-c", snippet], cwd=tmp_path, check=True, timeout=5 * SECONDS)
    for command in page.commands:
        output = run(command, tmp_path)
        assert command.expected().match(output), f"$ {command.line}\n{output}"
    assert page.files or page.commands


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda p: p.name)
def test_every_link_leads_to_a_file(page):
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#\s]+)", prose):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_every_variable_of_the_environment_is_in_a_page():
    pages = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")))
    code = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "vtcore").rglob("*.py"))
    assert {name for name in re.findall(r"\bVTCORE_[A-Z]+(?:_[A-Z]+)*\b", code) if name not in pages} == set()


def test_the_harness_sees_a_difference(tmp_path):
    assert not Command("echo 1", ("2",)).expected().match(run(Command("echo 1", ()), tmp_path))
    assert not Command("echo 1", ("1", "2")).expected().match("1\n")
    assert Command("", ("a...c", "...", "z")).expected().match("a b c\nmany\nlines\nz\n")
