"""The manager with tiers below its pools: whatever it says is there, is, and is what those tokens left."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes import FarMemory, far_view
from vtcore.kvcache.below import Below
from vtcore.kvcache.cache import Cache, Paged, State
from vtcore.kvcache.config import CacheConfig
from vtcore.kvcache.identity import Identity
from vtcore.kvcache.manager import KVCacheManager
from vtcore.kvcache.offload.disk import DiskTier
from vtcore.kvcache.offload.host import HostTier
from vtcore.kvcache.offload.offload import Offload
from vtcore.kvcache.offload.rows import Rows
from vtcore.memory import HOST, Memory

SHAPES = {"k": (1,)}
FULL, WINDOW, CHUNK = Paged(SHAPES), Paged(SHAPES, window=6), Paged(SHAPES, chunk=8)
RARE, STATE = Paged(SHAPES, every=2), State(SHAPES)
SIZE = 4


class World:
    """A manager over a real cache, whose entries are filled with what stands for the tokens before them: on the host or elsewhere."""

    def __init__(self, specs, pages: int, tiers, unit: int = SIZE, memory: Memory = HOST) -> None:
        self.memory = memory
        groups = {s.group: s for s in specs}
        self.cache = Cache({(i, "x"): s for i, s in enumerate(specs)}, pages, SIZE)
        rows = Rows(self.cache)
        made = [tier({g: rows.nbytes(g) for g in groups}) for tier in tiers]
        config = CacheConfig(SIZE, prefix_match_unit=unit, mamba_block_size=2 * SIZE if STATE in specs else None)
        self.kv = KVCacheManager(groups, dict.fromkeys(groups, pages), config, Below(Offload(rows, made) if made else None))
        self.entries = {s.group: self.cache.arrays[i, "x"]["k"] for i, s in enumerate(specs)}

    def run(self, tokens: list[int], step: int = 64) -> int | None:
        """A sequence through all of its tokens: how many it found. Everything that it reads is checked before each step."""
        kv, name = self.kv, object()
        chain = kv.chain(lambda begin, end: tokens[begin:end], len(tokens), False, Identity())
        found = kv.admit(name, chain, len(tokens) - 1, len(tokens), step)
        if found is None:
            return None
        at = found
        while at < len(tokens):
            n = min(step, len(tokens) - at)
            if not kv.allocate_slots(name, at, n):
                break
            for group, source, target in kv.copies([name]):
                self.cache.copy(group, source, target)
            for group in self.entries:
                self._check(name, group, tokens, at)
                self._write(name, group, tokens, at, n)
            kv.settle(name, at, at + n)
            at += n
        kv.free(name)
        return found

    def _values(self, group: str):
        entries = self.entries[group]
        if self.memory is HOST:
            return entries.numpy().reshape(-1)
        entries.storage.at(self.memory)
        return far_view(entries, self.memory).reshape(-1)

    def _check(self, name, group: str, tokens: list[int], computed: int) -> None:
        rule, values = self.kv.groups[group], self._values(group)
        if group == STATE.group:
            assert not computed or values[self.kv.read(name, group, computed)[0]] == mark(tokens, computed)
            return
        every, pages = rule.spec.every, self.kv.read(name, group, computed)
        for entry in range(rule.first(computed) // every, computed // every):
            assert values[pages[entry // SIZE] * SIZE + entry % SIZE] == mark(tokens, (entry + 1) * every)

    def _write(self, name, group: str, tokens: list[int], begin: int, n: int) -> None:
        values = self._values(group)
        for i, slot in enumerate(self.kv.slots(name, group, begin, n)):
            if slot >= 0:
                values[slot] = mark(tokens, begin + i + 1)
        self.entries[group].storage.wrote(self.memory)


def mark(tokens: list[int], length: int) -> float:
    """A number that stands for the first so many tokens, exact in float32."""
    return hash(tuple(tokens[:length])) % (1 << 24)


def host(pages: int, policy: str = "lru"):
    return lambda sizes: HostTier(pages * max(sizes.values()), policy)


def disk(root: Path, pages: int = 1000):
    return lambda sizes: DiskTier(root, pages * (300 + max(sizes.values())), {"one": 1}, sizes)


A, B = list(range(32)), list(range(100, 132))


@pytest.mark.feature("KV offload to host memory")
@pytest.mark.parametrize("specs", [[FULL], [FULL, WINDOW], [FULL, CHUNK], [RARE], [FULL, STATE], [STATE]])
@pytest.mark.parametrize("kind", ["host", "disk"])
@pytest.mark.parametrize("memory", [HOST, FarMemory()], ids=["here", "elsewhere"])
def test_what_its_pool_had_no_room_for_is_found_again(tmp_path, specs, kind, memory):
    world = World(specs, 10, [host(100) if kind == "host" else disk(tmp_path)], memory=memory)
    assert world.run([*A, 1]) == 0
    for i in range(4):
        assert world.run([*B[i:], 1], step=8) == 0
    assert world.run([*A, 2]) == 32
    stats = world.kv.stats().tiers[kind]
    assert stats.hits > 0
    assert stats.queries >= stats.hits
    assert stats.loaded_bytes > 0
    assert all(set(entries.storage.copies) == {memory} for entries in world.entries.values())  # nothing lies in two places


def test_without_a_tier_it_is_not():
    world = World([FULL], 10, [])
    world.run([*A, 1])
    world.run([*B, 1])
    assert world.run([*A, 2]) == 0
    assert world.kv.stats().tiers == {}


def test_what_is_in_both_is_looked_up_in_the_pool():
    world = World([FULL], 20, [host(100)])
    world.run([*A, 1])
    world.run([*A, 2])
    assert world.kv.stats().tiers["host"].queries == 1  # of the first sequence, for its first page


def test_what_the_host_gives_up_goes_to_the_disk_and_is_found_there(tmp_path):
    world = World([FULL], 10, [host(3), disk(tmp_path)])
    world.run([*A, 1])
    world.run([*B, 1])
    assert world.run([*A, 2]) == 32
    tiers = world.kv.stats().tiers
    assert tiers["host"].evictions > 0
    assert tiers["disk"].hits > 0


def test_what_is_held_at_the_end_is_there_for_the_next_process(tmp_path):
    world = World([FULL, WINDOW], 20, [host(5), disk(tmp_path)])
    world.run([*A, 1])
    world.kv.below.close()
    world.kv.below.close()
    assert World([FULL, WINDOW], 20, [disk(tmp_path)]).run([*A, 2]) == 32


@pytest.mark.filterwarnings("ignore:kv_offloading_dir")
def test_a_page_that_turns_out_to_be_damaged_shortens_what_is_found(tmp_path):
    world = World([FULL], 20, [disk(tmp_path)])
    world.run([*A, 1])
    world.kv.below.close()
    chain = world.kv.chain(lambda begin, end: A[begin:end], 32, False, Identity())
    [broken] = tmp_path.glob(f"*/0-{chain.key(12).hex()}")
    broken.write_bytes(broken.read_bytes()[:-1] + b"?")
    later = World([FULL], 20, [disk(tmp_path)])
    assert later.run([*A, 2]) == 8
    assert later.kv.stats().tiers["disk"].damaged == 1
    assert later.kv.usage == 0
    assert later.run([*A, 3]) == 32


def test_who_has_too_few_pages_brings_none():
    world = World([FULL], 10, [host(100)])
    world.run([*A, 1])
    world.run([*B, 1])
    loaded = world.kv.stats().tiers["host"].loaded_bytes
    taken = world.kv.pools[FULL.group].take(5)
    assert world.run([*A, 2]) is None
    assert world.kv.stats().tiers["host"].loaded_bytes == loaded
    assert world.kv.stats().tiers["host"].hits == 0
    world.kv.pools[FULL.group].release(taken)
    assert world.run([*A, 2]) == 32


def test_reset_forgets_what_is_below_too(tmp_path):
    world = World([FULL], 10, [host(3), disk(tmp_path)])
    world.run([*A, 1])
    world.run([*B, 1])
    assert world.kv.reset()
    assert world.run([*A, 2]) == 0
    assert {name: tier.pages for name, tier in World([FULL], 10, [disk(tmp_path)]).kv.stats().tiers.items()} == {"disk": 0}


KINDS = st.sampled_from([[FULL], [FULL, WINDOW], [WINDOW, RARE], [FULL, STATE], [CHUNK, STATE], [STATE]])
PROMPTS = st.lists(st.tuples(st.lists(st.integers(0, 1), min_size=1, max_size=30), st.sampled_from([3, 8, 64])), min_size=4, max_size=16)


@given(specs=KINDS, prompts=PROMPTS, pages=st.integers(9, 16), unit=st.sampled_from([4, 2]), room=st.integers(1, 12), data=st.data())
@settings(max_examples=60, deadline=None)
def test_whatever_is_found_is_what_the_tokens_left(specs, prompts, pages, unit, room, data):
    with TemporaryDirectory() as folder:
        tiers = {"host": [host(room, data.draw(st.sampled_from(["lru", "arc"])))], "disk": [disk(Path(folder), room)]}
        world = World(specs, pages, data.draw(st.sampled_from([tiers["host"], tiers["disk"], tiers["host"] + tiers["disk"]])), unit)
        for tokens, step in prompts:
            world.run(tokens, step)
            assert world.kv.usage == 0
