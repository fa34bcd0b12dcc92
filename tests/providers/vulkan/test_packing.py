"""Packed modules come back whole, with the same instructions in the same order and only their ids renamed."""

import numpy as np
import pytest

from vtcore.providers.kernels.ops.norm import RMS_NORM
from vtcore.providers.kernels.targets import glsl
from vtcore.providers.vulkan import packing, spirv
from vtcore.providers.vulkan.module import HEADER, WORDS, exact, instructions
from vtcore.providers.vulkan.packing import COMMON, LITERAL, pack, restored, unpack

VARIANTS = RMS_NORM.variants[:2]


@pytest.fixture(scope="module")
def modules():
    return {letter * 32: spirv.compiled(v.name, glsl.source(v)) for letter, v in zip("ab", VARIANTS, strict=True)}


def shape(code):
    """Instructions with each id by when it was first seen."""
    ids, out = {}, []
    for i in instructions(np.frombuffer(code, WORDS)):
        kinds = packing._kinds(i)
        words = zip(kinds, i[1:].tolist(), strict=True)
        out.append((int(i[0]), *(w if k == LITERAL else ids.setdefault(w, len(ids)) for k, w in words)))
    return out, len(ids)


def test_modules_come_back_as_they_went(modules):
    for digest, words in unpack(pack(modules)).items():
        code = exact(restored(words))
        assert shape(code) == shape(modules[digest])
        used = [w for i in instructions(np.frombuffer(code, WORDS)) for k, w in zip(packing._kinds(i), i[1:], strict=True) if k != LITERAL]
        assert max(used) < np.frombuffer(code, WORDS)[packing.BOUND]


def test_the_file_is_the_same_on_any_day(modules):
    data = pack(modules)
    assert pack(dict(reversed(modules.items()))) == data
    again = {digest: exact(restored(words)) for digest, words in unpack(data).items()}
    assert pack(again) == data


def test_what_modules_share_takes_no_second_room(modules):
    one, two = (len(pack(m)) for m in ({"a" * 32: modules["a" * 32]}, modules))
    assert two < 1.5 * one
    assert two < sum(map(len, modules.values())) / 6


def test_an_instruction_that_it_doesn_t_know_is_told():
    odd = np.array([0x07230203, 0x00010500, 0, 9, 0, 2 << 16 | 400, 1], WORDS)
    assert len(odd) == HEADER + 2
    with pytest.raises(ValueError, match="has an instruction 400, whose operands"):
        pack({"a" * 32: odd.tobytes()})


def test_more_that_is_common_than_there_are_numbers_is_told(modules, monkeypatch):
    monkeypatch.setattr(packing, "COMMON", 8)
    with pytest.raises(ValueError, match=r"the modules have \d+ types, constants and variables; 7 can be packed"):
        pack(modules)
    assert COMMON == 4096
