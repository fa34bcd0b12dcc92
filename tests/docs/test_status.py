import re
from pathlib import Path

from tools.fields_table import PAGE as FIELDS
from tools.fields_table import lines as fields
from tools.status_table import MODELS, PAGE, ROWS, lines, models, shown
from vtcore.catalogue import CATALOGUE
from vtcore.cli import COMMANDS
from vtcore.providers import BUILT_IN

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_status_page_is_what_is_registered():
    for page, made in ((PAGE, lines()), (MODELS, models())):
        assert page.read_text(encoding="utf-8").splitlines() == list(made), f"{page.name} is stale: run `python tools/status_table.py`"


def test_the_page_of_fields_is_what_the_request_classes_are():
    assert FIELDS.read_text(encoding="utf-8").splitlines() == list(fields()), "docs/fields.md is stale: run `python tools/fields_table.py`"


def test_every_row_has_a_test_and_every_mark_of_a_test_is_a_row():
    rows = {row for part in ROWS.values() for row in part}
    assert shown().keys() == rows


def test_every_provider_command_and_catalogue_name_is_described():
    for command in COMMANDS:
        assert f"| `vtcore {command.__name__.rpartition('.')[2].replace('_', '-')}" in README
    for name in (*CATALOGUE, *BUILT_IN):
        assert f"`{name}`" in README


def test_the_two_commands_are_the_ones_that_ci_runs():
    commands = re.findall(r"^```sh\n(.*)\n```$", README, re.MULTILINE)
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert len(commands) == 2
    for command in commands:
        assert command.replace("pip install ", "pip install -q ") in script
