"""Models that were split into several GGUF files."""

import numpy as np
import pytest

from tests.writers import Typed, write_gguf
from vtcore.errors import ConfigError, GGUFError
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.formats.gguf import read_gguf

TOTAL = Typed("i32", 3)


def part(number: int, count: int = 3, total: object = TOTAL, **more: object) -> dict[str, object]:
    return {"split.no": Typed("u16", number), "split.count": Typed("u16", count), "split.tensors.count": total, **more}


@pytest.fixture
def parts(tmp_path):
    """Three well-formed parts with a tensor each."""
    paths = [tmp_path / f"m-0000{i}-of-00003.gguf" for i in (1, 2, 3)]
    for i, path in enumerate(paths):
        more = {"general.architecture": "llama"} if i == 0 else {}
        write_gguf(path, part(i, **more), {f"t{i}": np.full(4, i, np.float32)})
    return paths


@pytest.mark.parametrize("which", [0, 1, 2])
def test_any_part_opens_the_whole_model(parts, which):
    gguf = read_gguf(parts[which])
    assert [t.load()[0] for t in gguf.tensors.values()] == [0, 1, 2]
    assert [t.source for t in gguf.tensors.values()] == [str(p) for p in parts]
    assert gguf.files == tuple(parts)
    assert gguf.metadata.text("general.architecture") == "llama"


def test_a_directory_with_one_split_model(parts):
    checkpoint = open_checkpoint(parts[0].parent)
    assert checkpoint.kind == "gguf"
    assert list(checkpoint.tensors) == ["t0", "t1", "t2"]
    assert checkpoint.files == tuple(parts)


def test_missing_parts_are_named(parts):
    parts[1].unlink()
    parts[2].unlink()
    with pytest.raises(GGUFError, match=r"missing beside it: m-00002-of-00003\.gguf, m-00003-of-00003\.gguf"):
        read_gguf(parts[0])


@pytest.mark.parametrize("name", ["model.gguf", "m-00001-of-00002.gguf", "m-1-of-3.gguf"])
def test_a_part_under_another_name(parts, name):
    path = parts[0].rename(parts[0].with_name(name))
    with pytest.raises(GGUFError, match=r"must end in -00001-of-00003\.gguf"):
        read_gguf(path)


def test_parts_in_another_order(parts):
    write_gguf(parts[1], part(2), {"t1": np.ones(4, np.float32)})
    with pytest.raises(GGUFError, match=r"m-00002-of-00003\.gguf: 'split\.no' and 'split\.count' are 2 and 3; by its name 1 and 3"):
        read_gguf(parts[0])


def test_a_part_of_another_model(parts):
    write_gguf(parts[2], part(2, count=4), {"t2": np.ones(4, np.float32)})
    with pytest.raises(GGUFError, match=r"'split\.count' are 2 and 4"):
        read_gguf(parts[0])


def test_a_tensor_in_two_parts(parts):
    write_gguf(parts[2], part(2), {"t0": np.ones(4, np.float32)})
    with pytest.raises(GGUFError, match=r"tensor 't0' is in .*m-00001.* and again in .*m-00003"):
        read_gguf(parts[0])


def test_a_tensor_too_few(parts):
    write_gguf(parts[2], part(2), {})
    with pytest.raises(GGUFError, match=r"'split\.tensors\.count' is 3, and the 3 parts hold 2 tensors"):
        read_gguf(parts[0])


def test_a_count_of_the_wrong_type(parts):
    write_gguf(parts[0], part(0) | {"split.count": "3"}, {"t0": np.ones(4, np.float32)})
    with pytest.raises(ConfigError, match=r"'split\.count' is '3'; an integer"):
        read_gguf(parts[0])


def test_a_split_into_one_is_a_file(tmp_path):
    path = write_gguf(tmp_path / "whatever.gguf", part(0, count=1), {"t": np.ones(4, np.float32)})
    assert list(read_gguf(path).tensors) == ["t"]
