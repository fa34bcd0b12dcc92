"""The cache directory: where it lies, what is kept in it, and its end."""

import sys
from pathlib import Path

import pytest

from vtcore import caches
from vtcore.cli import main


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("VTCORE_CACHE", str(tmp_path))
    return tmp_path


def put(path, size):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)


@pytest.mark.parametrize(
    ("platform", "variables", "where"),
    [
        ("linux", {"XDG_CACHE_HOME": "/caches"}, "/caches/vtcore"),
        ("linux", {}, "~/.cache/vtcore"),
        ("darwin", {"XDG_CACHE_HOME": "/caches"}, "~/Library/Caches/vtcore"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/vtcore"),
        ("win32", {}, "~/AppData/Local/vtcore"),
        ("linux", {"VTCORE_CACHE": "~/own"}, "~/own"),
    ],
)
def test_where_it_lies(monkeypatch, platform, variables, where):
    for name in ("VTCORE_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert caches.cache_directory() == Path(where).expanduser()


def test_an_empty_one_shows_only_where_it_is(root, capsys):
    assert main(["cache", "show"]) == 0
    assert capsys.readouterr().out == f"{root} (VTCORE_CACHE chooses another)\n"
    assert main(["cache", "clear", "all"]) == 0


def test_parts_are_shown_with_their_sizes(root, capsys):
    put(root / "kernels/a.o", 500_000)
    put(root / "kernels/b.o", 500_000)
    put(root / "models/toy/toy.gguf", 2_000_000)
    put(root / "models/toy/lock", 0)
    assert [(p.name, p.files, p.nbytes) for p in caches.kept()] == [("kernels", 2, 1_000_000), ("models/toy", 1, 2_000_000)]
    assert main(["cache", "show"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["kernels", "2", "files", "1.0", "MB"],
        ["models/toy", "1", "files", "2.0", "MB"],
    ]


@pytest.mark.parametrize(("what", "left"), [("kernels", ["models/toy"]), ("models", ["kernels"]), ("all", [])])
def test_only_what_is_named_is_cleared(root, capsys, what, left):
    put(root / "kernels/a.o", 10)
    put(root / "models/toy/wheels/part.whl", 10)
    put(root / "models/toy/toy.gguf", 10)
    assert main(["cache", "clear", what]) == 0
    assert [p.name for p in caches.kept()] == left
    assert "MB removed" in capsys.readouterr().out


def test_what_to_clear_has_to_be_said(capsys):
    with pytest.raises(SystemExit):
        main(["cache", "clear"])
    with pytest.raises(SystemExit):
        main(["cache", "clear", "everything"])
    assert "invalid choice: 'everything'" in capsys.readouterr().err
