"""Pages as files: found by whoever comes later, true or not there at all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kvcache.offload.pages import at, saved
from vtcore.errors import ArgumentError
from vtcore.kvcache.offload.disk import DiskTier

IDENTITY, SIZES = {"weights": "w", "block_size": 4}, {"g": 100, "h": 50}


def tier(root, capacity=1 << 20, identity=IDENTITY, sizes=SIZES) -> DiskTier:
    return DiskTier(root, capacity, identity, sizes)


def files(root):
    return sorted(p for p in root.glob("*/*") if p.name != "identity.json")


@pytest.mark.feature("KV offload to host memory")
def test_the_next_process_finds_what_one_has_written(tmp_path):
    tier(tmp_path).write(saved(b"aa", b"ab"))
    later = tier(tmp_path)
    for key in (b"aa", b"ab"):
        assert later.has(at(key))
        assert later.read(at(key)).data.tobytes() == saved(b"ab").data.tobytes()
        assert later.read(at(key)).keys == (b"aa", b"ab")
    assert not later.has(at(b"aa", "h"))
    assert later.stats().loaded_bytes == 400


def test_one_that_runs_beside_finds_it_too(tmp_path, monkeypatch):
    monkeypatch.setattr("vtcore.kvcache.offload.disk.FRESH", 0)
    one, other = tier(tmp_path), tier(tmp_path)
    assert not other.has(at(b"a"))
    one.write(saved(b"a"))
    assert other.has(at(b"a"))
    one.clear()
    assert other.read(at(b"a")) is None
    assert other.stats().damaged == 0
    assert not other.has(at(b"a"))


def damaged(path, how, place):
    data = bytearray(path.read_bytes())
    if how == "cut":
        data = data[: place % len(data)]
    elif how == "longer":
        data += b"x"
    else:
        data[place % len(data)] ^= 1 + place % 255
    path.write_bytes(data)


@given(how=st.sampled_from(["cut", "longer", "bit", "bit", "bit"]), place=st.integers(0, 1 << 20))
@settings(max_examples=60, deadline=None)
@pytest.mark.filterwarnings("ignore:kv_offloading_dir")
def test_a_damaged_file_is_a_miss_and_is_reported(tmp_path_factory, how, place):
    root = tmp_path_factory.mktemp("pages")
    tier(root).write(saved(b"a"))
    damaged(files(root)[0], how, place)
    t = tier(root)
    if (found := t.read(at(b"a"))) is not None:  # one kind of space in the header became another
        assert found.data.tobytes() == saved(b"a").data.tobytes()
        return
    assert t.stats().damaged == 1
    assert files(root) == []
    assert str(root) in t.stats().faults[0]
    assert not t.has(at(b"a"))
    t.write(saved(b"a"))
    assert t.read(at(b"a")) is not None


def test_the_report_is_a_warning_that_names_the_file(tmp_path):
    t = tier(tmp_path)
    t.write(saved(b"a"))
    files(tmp_path)[0].write_bytes(b"something else")
    with pytest.warns(UserWarning, match=f"kv_offloading_dir: .*{files(tmp_path)[0].name}: it doesn't begin as a page does; it is removed"):
        assert t.read(at(b"a")) is None


@pytest.mark.filterwarnings("ignore:kv_offloading_dir")
@pytest.mark.parametrize("whose", ["another key's", "another group's", "another model's", "another size's"])
def test_a_file_in_the_wrong_place_is_a_miss(tmp_path, whose):
    t, other = tier(tmp_path / "a"), tier(tmp_path / "b", identity={"weights": "v"}, sizes={"g": 101} if "size" in whose else SIZES)
    t.write(saved(b"a"))
    [place] = files(tmp_path / "a")
    page = saved(b"b" if "key" in whose else b"a", group="h" if "group" in whose else "g", nbytes=other.sizes["g"])
    if "group" in whose:
        page = saved(b"a", group="h", nbytes=100)
    source = other if "model" in whose else tier(tmp_path / "c", sizes=other.sizes)
    source.write(page)
    [foreign] = files(tmp_path / ("b" if "model" in whose else "c"))
    foreign.replace(place)
    assert t.read(at(b"a")) is None
    assert t.stats().damaged == 1


def test_another_model_shares_the_directory_and_nothing_in_it(tmp_path):
    tier(tmp_path).write(saved(b"a"))
    other = tier(tmp_path, identity=IDENTITY | {"weights": "another"})
    assert not other.has(at(b"a"))
    assert other.read(at(b"a")) is None
    other.clear()
    assert tier(tmp_path).has(at(b"a"))


def test_a_folder_whose_identity_was_changed_is_refused(tmp_path):
    t = tier(tmp_path)
    (t.folder / "identity.json").write_text("{}")
    with pytest.raises(ArgumentError, match="is not what this engine would write; remove"):
        tier(tmp_path)


def test_a_directory_that_can_t_be_made_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ArgumentError, match=r"kv_offloading_dir: .* can't be used"):
        tier(tmp_path / "file" / "below")


def test_those_unused_for_longest_go_whosever_they_are(tmp_path):
    old = tier(tmp_path, identity={"weights": "old"})
    for i in range(8):
        old.write(saved(bytes([i])))
    for path in files(tmp_path):
        os.utime(path, (1e9, 1e9))
    size = sum(p.stat().st_size for p in files(tmp_path))
    t = tier(tmp_path, size)
    for i in range(4):
        assert t.write(saved(bytes([i]))) == []
        assert sum(p.stat().st_size for p in files(tmp_path)) <= size
    assert all(t.read(at(bytes([i]))) is not None for i in range(4))
    assert t.stats().evictions >= 4
    assert t.stats().nbytes <= size


def test_names_of_one_page_count_once(tmp_path):
    t = tier(tmp_path)
    t.write(saved(b"a", b"b", b"c"))
    t.files.shrink()
    assert t.stats().nbytes == files(tmp_path)[0].stat().st_size


def test_what_nobody_finished_is_never_read_and_goes_in_time(tmp_path):
    t = tier(tmp_path)
    t.write(saved(b"a"))
    [path] = files(tmp_path)
    part = path.with_name("0-00.7-7.part")
    path.rename(part)
    assert not tier(tmp_path).has(at(b"a"))
    assert part.exists()
    os.utime(part, (time.time() - 7200, time.time() - 7200))
    tier(tmp_path)
    assert not part.exists()


def test_a_disk_without_room_costs_pages_and_nothing_else(tmp_path, monkeypatch):
    t = tier(tmp_path)

    def full(*_):
        raise OSError(28, "No space left on device")

    pages = [saved(key) for key in (b"a", b"b", b"c")]
    with monkeypatch.context() as small:
        small.setattr("vtcore.kvcache.offload.disk.write_page", full)
        with pytest.warns(UserWarning, match="No space left") as told:
            assert [t.write(page) for page in pages] == [[page] for page in pages]
    assert len(told) == 1
    assert (len(t.stats().faults), t.stats().damaged) == (3, 0)
    assert not t.has(at(b"a"))
    assert t.write(pages[0]) == []
    monkeypatch.setattr("vtcore.kvcache.offload.disk.write_page", full)
    with pytest.warns(UserWarning, match="No space left"):  # it had room again
        t.write(pages[1])


@pytest.mark.filterwarnings("ignore:kv_offloading_dir")
def test_a_directory_that_somebody_removes_costs_pages_and_nothing_else(tmp_path):
    t = tier(tmp_path / "pages")
    t.write(saved(b"a"))
    shutil.rmtree(tmp_path / "pages")
    assert t.read(at(b"a")) is None
    assert t.write(saved(b"b"))
    t.clear()
    t.close()
    assert (t.stats().pages, t.stats().nbytes) == (0, 0)


WRITER = """
import sys, pathlib
from tests.kvcache.offload.test_disk import tier, saved, at
t = tier(pathlib.Path(sys.argv[1]), 5000)
wrong = 0
for i in range(400):
    key = bytes([i % 40])
    t.write(saved(key))
    t._list()
    found = t.read(at(key)) if t.has(at(key)) else None
    wrong += found is not None and found.data.tobytes() != saved(key).data.tobytes()
print(wrong, t.stats().damaged)
"""


def test_several_processes_write_read_and_evict_at_once(tmp_path):
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [p.communicate()[0].split() for p in running] == [["0", "0"]] * 2
    tier(tmp_path, 5000)
    assert 0 < sum(p.stat().st_size for p in files(tmp_path)) <= 5000
