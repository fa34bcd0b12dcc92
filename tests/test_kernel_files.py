"""Compiled kernels of every kind stay within one bound; what was used longest ago goes first, and nobody is harmed by anybody."""

import os
import subprocess
import sys
import time

import pytest

from vtcore import kernel_files
from vtcore.kernel_files import KernelFiles
from vtcore.providers.cuda import nvrtc
from vtcore.providers.vulkan import spirv
from vtcore.simt import compiler

WRITER = """
import sys
from pathlib import Path
from vtcore import kernel_files
kernel_files.BETWEEN = 2
files = kernel_files.KernelFiles(Path(sys.argv[1]), 20_000)
for i in range(150):
    path = files.directory / sys.argv[2] / f"{i % 40}.o"
    assert files.sealed(path) in (None, bytes([i % 40]) * 900)
    assert files.put(path, bytes([i % 40]) * 900, seal=True)
"""


def put(files, name, nbytes, when):
    path = files.directory / name
    assert files.put(path, bytes(nbytes))
    os.utime(path, (when, when))


def names(files):
    return {str(path.relative_to(files.directory)) for _, path, _ in files.entries()}


def test_those_that_were_used_longest_ago_go_first_whatever_folder_they_are_in(tmp_path):
    files = KernelFiles(tmp_path, limit=3000)
    for when, name in enumerate(("a.o", "simt/b.so", "cuda/c.cubin", "spirv/d.spv", "e.o")):
        put(files, name, 900, when + 1)
    kernel_files.used(tmp_path / "a.o")
    files.make_room()
    assert names(files) == {"a.o", "spirv/d.spv", "e.o"}


def test_a_process_looks_when_it_begins_and_now_and_then(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_files, "BETWEEN", 4)
    files = KernelFiles(tmp_path, limit=1000)
    (tmp_path / "old.o").write_bytes(bytes(2000))
    for i in range(12):
        put(files, f"{i}.o", 500, i + 1)
        assert sum(size for *_, size in files.entries()) <= 1000 + 4 * 500
    assert "old.o" not in names(files)


def test_what_a_killed_process_left_goes_too_and_locks_and_what_is_being_written_stay(tmp_path):
    left, fresh, lock = (tmp_path / name for name in ("left.tmp", "fresh.tmp", "lock"))
    for path in (left, fresh, lock):
        path.write_bytes(b"half")
    for path in (left, lock):
        os.utime(path, (time.time() - 3600,) * 2)
    KernelFiles(tmp_path, limit=3).make_room()  # less than what is just being written
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fresh.tmp", "lock"]


def test_only_what_is_whole_counts_as_used(tmp_path):
    files, path = KernelFiles(tmp_path), tmp_path / "a.spv"
    assert files.sealed(path) is None
    files.put(path, b"code", seal=True)
    os.utime(path, (0, 0))
    assert files.sealed(path) == b"code"
    assert path.stat().st_mtime > 0
    path.write_bytes(b"something else")
    os.utime(path, (0, 0))
    assert files.sealed(path) is None
    assert path.stat().st_mtime == 0


def test_processes_that_write_and_remove_at_once_see_whole_files_or_none(tmp_path):
    commands = [[sys.executable, "-c", WRITER, str(tmp_path), folder] for folder in ("simt", "simt", "cuda")]
    writers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
    assert [writer.communicate()[1] for writer in writers] == ["", "", ""]
    KernelFiles(tmp_path, 20_000).make_room()
    assert sum(size for *_, size in KernelFiles(tmp_path).entries()) <= 20_000


SHADER = "#version 450\nlayout(local_size_x = 1) in;\nvoid main() {{ uint {name} = 1u; }}"
KINDS = {
    "cuda": lambda name: nvrtc.compiled(f'extern "C" __global__ void {name}(int* x) {{ *x = 1; }}', "sm_90"),
    "simt": lambda name: compiler.library(f'extern "C" int {name}() {{ return 1; }}'),
    "spirv": lambda name: spirv._made(name, name, SHADER.format(name=name)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_makes_room(tmp_path, monkeypatch, kind):
    monkeypatch.setenv("VTCORE_CACHE", str(tmp_path))
    monkeypatch.setattr(kernel_files.kernel_files(), "limit", 1)
    monkeypatch.setattr(kernel_files, "BETWEEN", 1)
    for name in ("one", "two"):
        KINDS[kind](name)
    (path,) = (path for _, path, _ in kernel_files.kernel_files().entries())
    assert path.parent == tmp_path / "kernels" / kind
