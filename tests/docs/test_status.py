import re
from pathlib import Path

from vtcore.catalogue import CATALOGUE
from vtcore.cli import COMMANDS
from vtcore.models.registry import ARCHITECTURES, load_all
from vtcore.providers import BUILT_IN
from vtcore.quant import FORMATS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def row(name: str) -> set[str]:
    """The names in code type of one row of the table of what there is."""
    (line,) = re.findall(rf"^\| {name} \| (.*) \|$", README, re.MULTILINE)
    return set(re.findall(r"`([^`]+)`", line))


def test_the_table_lists_what_is_registered():
    load_all()
    assert row("architectures") == {name for name, cls in ARCHITECTURES.items() if cls.__module__.startswith("vtcore.")}
    assert row("weights") == set(FORMATS)
    assert row("providers") == set(BUILT_IN)


def test_every_command_and_catalogue_name_is_described():
    for command in COMMANDS:
        assert f"| `vtcore {command.__name__.rpartition('.')[2]}" in README
    for name in CATALOGUE:
        assert f"`{name}`" in README


def test_the_two_commands_are_the_ones_that_ci_runs():
    commands = re.findall(r"^```sh\n(.*)\n```$", README, re.MULTILINE)
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert len(commands) == 2
    for command in commands:
        assert command.replace("pip install ", "pip install -q ") in script
