"""Compiled code on disk: damaged, foreign and missing entries are made anew, nobody is harmed by anybody, and it stays small."""

import os
import subprocess
import sys

import numpy as np
import pytest

from tests.providers.portable.instances import run
from vtcore import ops
from vtcore.kernel_files import KernelFiles
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
    return ObjectCache(KernelFiles(tmp_path / "kernels"))


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
    for _, path, _ in objects.files.entries():
        path.write_bytes(damage(path.read_bytes()))
    assert doubled(objects) == (3, 0)
    assert doubled(objects) == (0, 3)


def test_an_entry_under_another_s_name_is_compiled_anew(objects):
    doubled(objects)
    paths = [path for _, path, _ in objects.files.entries()]
    contents = [path.read_bytes() for path in paths]
    for path, data in zip(paths, contents[1:] + contents[:1], strict=True):
        path.write_bytes(data)
    assert doubled(objects) == (3, 0)


def test_a_directory_that_can_t_be_written_costs_only_time(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    objects = ObjectCache(KernelFiles(tmp_path / "file" / "kernels"))
    assert doubled(objects) == (3, 0)
    assert not objects.writable
    assert objects.files.entries() == []


def test_processes_that_race_for_an_empty_cache(tmp_path):
    environment = os.environ | {"VTCORE_CACHE": str(tmp_path)}
    racers = [subprocess.Popen([sys.executable, "-c", ONE_PROCESS], env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [racer.communicate()[0] for racer in racers] == ["10.0\n"] * 3
    assert [racer.returncode for racer in racers] == [0] * 3
    names = [path.suffix for path in (tmp_path / "kernels").iterdir()]
    assert names == [".o"] * 3


def test_what_is_read_counts_as_used(objects):
    doubled(objects)
    for _, path, _ in objects.files.entries():
        os.utime(path, (0, 0))
    doubled(objects)
    assert all(when > 0 for when, _, _ in objects.files.entries())


def test_where_it_is(monkeypatch, tmp_path):
    monkeypatch.setenv("VTCORE_CACHE", str(tmp_path))
    assert ObjectCache().files.directory == tmp_path / "kernels"
