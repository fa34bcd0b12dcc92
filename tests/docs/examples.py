"""The examples of a Markdown page: files to write and commands to run, as a reader would."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\S+\.(?:py|toml))\n")
ANYTHING = "..."


@dataclass(frozen=True)
class Command:
    """A line after `$`, and the lines that must come of it; `...` stands for any text."""

    line: str
    output: tuple[str, ...]

    def expected(self) -> re.Pattern[str]:
        """What the whole output must match."""
        lines = [".*".join(map(re.escape, line.split(ANYTHING))) if line != ANYTHING else "(?s:.*)" for line in self.output]
        return re.compile("\n".join(lines) + r"\n?\Z")


@dataclass(frozen=True)
class Page:
    """What a page has its reader do."""

    files: dict[str, str]
    commands: tuple[Command, ...]
    snippets: tuple[str, ...]  # Python without a file's name


def read(path: Path) -> Page:
    """A page's fences: python and toml with `# name` in the first line are files, `console` holds commands; others are pictures."""
    files: dict[str, str] = {}
    commands: list[Command] = []
    snippets: list[str] = []
    for language, body in FENCE.findall(path.read_text(encoding="utf-8")):
        if language in ("python", "toml") and (name := FILE.match(body)):
            files[name[1]] = body
        elif language == "python":
            snippets.append(body)
        elif language == "console":
            commands += _commands(body)
    return Page(files, tuple(commands), tuple(snippets))


def _commands(body: str) -> list[Command]:
    parts = re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]
    return [Command(lines[0], tuple(lines[1:])) for lines in (part.rstrip("\n").split("\n") for part in parts)]
