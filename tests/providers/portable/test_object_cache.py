"""Compiled code on disk: damaged, foreign and missing entries are made anew, nobody is harmed by anybody, and it stays small."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.providers.portable.instances import run
from vtcore import ops
from vtcore.providers.portable import object_cache
from vtcore.providers.portable.kernels import register_all
from vtcore.providers.portable.object_cache import ObjectCache
from vtcore.providers.portable.provider import Portable

X = np.arange(20, dtype=np.float32)
ONE_PROCESS = """
import sys
import numpy as np
from vtcore.dispatch import Dispatcher
from vtcore.ops import add
from vtcore.providers import find
from vtcore.tensor import of
with Dispatcher([find("portable")], strict=True):
    print(add(of(np.ones(5, np.float32)), of(np.ones(5, np.float32))).numpy().sum())
"""


@pytest.fixture
def objects(tmp_path):
    return ObjectCache(tmp_path / "kernels")


def doubled(objects):
    """How many pieces of code a fresh provider compiled, and loaded, to add an array to itself."""
    provider = Portable(None, 1, objects)
    register_all(provider)
    np.testing.assert_array_equal(run(provider, ops.add, x=X, y=X), 2 * X)
    return provider.jit.compiled, provider.jit.loaded


def test_what_was_compiled_once_is_loaded(objects):
    assert doubled(objects) == (3, 0)
    assert doubled(objects) == (0, 3)


@pytest.mark.parametrize(
    "damage", [lambda data: b"", lambda data: data[:-1], lambda data: data[:100], lambda data: data[:200] + b"?" + data[201:]]
)
def test_a_damaged_entry_is_compiled_anew(objects, damage):
    doubled(objects)
    for path, _ in objects.entries():
        path.write_bytes(damage(path.read_bytes()))
    assert doubled(objects) == (3, 0)
    assert doubled(objects) == (0, 3)


def test_an_entry_under_another_s_name_is_compiled_anew(objects):
    doubled(objects)
    paths = [path for path, _ in objects.entries()]
    contents = [path.read_bytes() for path in paths]
    for path, data in zip(paths, contents[1:] + contents[:1], strict=True):
        path.write_bytes(data)
    assert doubled(objects) == (3, 0)


def test_a_directory_that_can_t_be_written_costs_only_time(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    objects = ObjectCache(tmp_path / "file" / "kernels")
    assert doubled(objects) == (3, 0)
    assert not objects.writable
    assert objects.entries() == []


def test_folders_of_other_kernels_beside_them_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(object_cache, "BETWEEN", 1)
    (tmp_path / "simt").mkdir()
    os.utime(tmp_path / "simt", (0, 0))
    objects = ObjectCache(tmp_path, limit=4000)
    for i in range(10):
        objects.put(str(i), bytes(900))
    assert objects.writable
    assert objects.get("9") is not None
    assert objects.clear() > 0
    assert (tmp_path / "simt").is_dir()


def test_processes_that_race_for_an_empty_cache(tmp_path):
    environment = os.environ | {"VTCORE_CACHE": str(tmp_path)}
    racers = [subprocess.Popen([sys.executable, "-c", ONE_PROCESS], env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [racer.communicate()[0] for racer in racers] == ["10.0\n"] * 3
    assert [racer.returncode for racer in racers] == [0] * 3
    names = [path.suffix for path in (tmp_path / "kernels").iterdir()]
    assert names == [".o"] * 3


def test_the_least_recently_used_go_first(tmp_path, monkeypatch):
    monkeypatch.setattr(object_cache, "BETWEEN", 1)
    objects = ObjectCache(tmp_path, limit=4000)
    for i in range(10):
        objects.put(str(i), bytes(900))
        path = objects._path(str(i))
        os.utime(path, (i, i))
    objects.get("6")
    objects.put("10", bytes(900))
    kept = [key for key in map(str, range(11)) if objects.get(key) is not None]
    assert "6" in kept
    assert "10" in kept
    assert sum(size for _, size in objects.entries()) <= 4000 + 1000


def test_files_that_a_killed_process_left_go_too(tmp_path):
    left, fresh = tmp_path / "left.tmp", tmp_path / "fresh.tmp"
    left.write_bytes(b"half")
    fresh.write_bytes(b"half")
    os.utime(left, (time.time() - 3600,) * 2)
    ObjectCache(tmp_path).put("key", b"code")
    assert not left.exists()
    assert fresh.exists()


def test_it_can_be_cleared(objects):
    doubled(objects)
    assert objects.clear() == 3
    assert objects.entries() == []
    assert doubled(objects) == (3, 0)


def test_where_it_is(monkeypatch, tmp_path):
    monkeypatch.setenv("VTCORE_CACHE", str(tmp_path))
    assert ObjectCache().directory == tmp_path / "kernels"
