"""The example of a GitHub workflow: its vtcore commands parse, and its prompts are prompts."""

import re
import shlex
from pathlib import Path

import yaml

from vtcore.cli import parser
from vtcore.oracle.prompts import read_prompts

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def test_every_command_of_the_workflow_is_one():
    steps = yaml.safe_load((EXAMPLES / "oracle.yml").read_text(encoding="utf-8"))["jobs"]["oracle"]["steps"]
    commands = re.findall(r"\bvtcore ([a-z].*?)\)?\"?(?: >>.*)?$", "\n".join(s.get("run", "") for s in steps), re.MULTILINE)
    parsed = [parser().parse_args(shlex.split(c.replace("$ENGINE", "http://127.0.0.1:8080"))) for c in commands]
    assert [p.command.__name__ for p in parsed] == ["main", "record", "compare"]
    assert parsed[2].engine == "http://127.0.0.1:8080"


def test_the_prompts_can_be_read():
    assert len(read_prompts(EXAMPLES / "prompts.jsonl")) == 8
