"""Files are whole, or not there; a full disk is named with the file."""

import os
from pathlib import Path

import pytest

from vtcore.written import keep, keep_sealed, sealed, write, writing


def test_what_is_written_is_there(tmp_path):
    write(tmp_path / "a", "\u00e9")
    write(tmp_path / "b", b"\xff")
    assert (tmp_path / "a").read_bytes() + (tmp_path / "b").read_bytes() == b"\xc3\xa9\xff"


def test_a_full_disk_is_named():
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"):
        write(Path("/dev/full"), "text")
    assert Path("/dev/full").is_char_device()


def break_off(path):
    with writing(path) as file:
        file.write(b"1")
        raise OSError(28, "No space left on device")


def test_half_a_file_is_not_left(tmp_path):
    with pytest.raises(OSError, match=r"No space left on device: '.*half'"):
        break_off(tmp_path / "half")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_may_not_be_opened_stays(tmp_path):
    (tmp_path / "directory").mkdir()
    with pytest.raises(IsADirectoryError, match="directory"):
        write(tmp_path / "directory", "text")
    assert (tmp_path / "directory").is_dir()


def test_what_is_kept_is_whole_or_not_there(tmp_path, monkeypatch):
    assert keep(tmp_path / "deep" / "a.o", b"1")
    assert (tmp_path / "deep" / "a.o").read_bytes() == b"1"
    assert not keep(tmp_path / "deep" / "a.o" / "b.o", b"1")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert not keep(tmp_path / "deep" / "b.o", b"2")
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["a.o"]


def test_what_is_sealed_comes_back_whole_or_not_at_all(tmp_path):
    path = tmp_path / "folder" / "kept"
    assert sealed(path) is None
    for data in (b"", b"something"):
        assert keep_sealed(path, data)
        assert sealed(path) == data
    whole = path.read_bytes()
    for damaged in (b"", whole[:-1], whole + b" ", whole[:40] + b"?", b"something"):
        path.write_bytes(damaged)
        assert sealed(path) is None
