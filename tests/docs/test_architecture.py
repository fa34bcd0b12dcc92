"""docs/architecture.md: its table holds every module, and imports only point down it."""

import ast
import importlib
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "vtcore"
BESIDE = {"conformance", "pytest_plugin.py", "__init__.py", "__main__.py", "py.typed", "__pycache__"}


def table():
    """Modules and folders, and the number of the row that each stands in."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return {name.rstrip("/"): number for number, row in enumerate(rows) for name in re.findall(r"`([\w./]+)`", row)}


def row(path, rows):
    top = path.relative_to(PACKAGE).parts[0]
    return rows.get(top)


def imported(path):
    """The modules of vtcore that a file imports when it runs: not those that only annotations need."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing = [n for n in ast.walk(tree) if isinstance(n, ast.If) and getattr(n.test, "id", "") == "TYPE_CHECKING"]
    hidden = {id(n) for block in typing for n in ast.walk(block)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("vtcore.") and id(node) not in hidden:
            yield node.module


def file_of(module):
    top = module.split(".")[1]
    return top if (PACKAGE / top).is_dir() else f"{top}.py"


def test_every_module_stands_in_the_table_and_nothing_else():
    there = {path.name for path in PACKAGE.iterdir()}
    assert there - BESIDE == set(table())


def found(name):
    """What a dotted name such as kvcache.manager.KVCacheManager stands for; AttributeError or ImportError where it is nothing."""
    module, *rest = name.split(".")
    thing = importlib.import_module(f"vtcore.{module}")
    for part in rest:
        if not hasattr(thing, part):
            importlib.import_module(f"{thing.__name__}.{part}")
        thing = getattr(thing, part)
    return thing


def test_every_name_in_the_walk_is_there():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    dotted = set(re.findall(r"`([a-z_]+(?:\.\w+)+)`", text))
    names = {n for n in dotted if not n.endswith(".py") and file_of(f"vtcore.{n}") in table()}
    assert len(names) > 8
    assert all(found(name) for name in names)


def test_imports_only_point_down():
    rows = table()
    files = [(path, row(path, rows)) for path in sorted(PACKAGE.rglob("*.py"))]
    up = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path, number in files
        if number is not None
        for module in imported(path)
        if (other := rows.get(file_of(module))) is not None and other < number
    ]
    assert up == []
