"""The sum of what a model needs, and its refusal, before anything is allocated."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtcore import available
from vtcore.errors import ArgumentError, OutOfMemoryError
from vtcore.kvcache.cache import Cache, Paged, State
from vtcore.kvcache.config import STATES, CacheConfig
from vtcore.memory_plan import Needs, gib, memory_limit, plan_memory, sequence_pages
from vtcore.scheduler.config import SchedulerConfig

SPECS = {(i, "kv"): Paged({"k": (2, 8), "v": (2, 8)}) for i in range(3)}  # 128 bytes a token and layer
WINDOWED = SPECS | {(3, "kv"): Paged({"k": (2, 8), "v": (2, 8)}, window=8)}
NEEDS = Needs(weights=1000, repacked=500, token_bytes=10, vocab_size=5)
CONFIG = SchedulerConfig(max_num_seqs=4, max_num_batched_tokens=16, max_model_len=64)
CACHE = CacheConfig(16)
FIXED = 1000 + 500 + 10 * 16 + 4 * 4 * 5 * (4 + 64)
PAGE = 3 * 16 * 128


@pytest.mark.feature("Automatic memory sizing (no hand-tuned budget)")
def test_without_a_limit_there_is_room_for_all_sequences(monkeypatch):
    monkeypatch.setattr("vtcore.memory_plan.available_memory", lambda: None)
    plan = plan_memory(NEEDS, SPECS, CONFIG, CACHE)
    [pages] = plan.pages.values()
    assert pages == 1 + 4 * 4
    assert plan.kv_cache == 17 * PAGE
    assert plan.total == FIXED + 17 * PAGE
    assert "no limit is known" in str(plan)


def test_the_cache_is_what_the_arrays_take():
    plan = plan_memory(NEEDS, WINDOWED, CONFIG, CACHE, "1GiB")
    assert Cache(WINDOWED, plan.pages, 16).nbytes == plan.kv_cache
    full, windowed = plan.pages.values()
    assert (full, windowed) == (1 + 4 * 4, 1 + 3 * 4)  # 7 + 16 tokens lie on up to 3 pages


SHARES = replace(NEEDS, gives_back=True)
EVEN = {(i, "kv"): Paged({"k": (2, 64), "v": (2, 64)}, window=8 * (i % 2)) for i in range(4)}  # 8 KiB a page, of each array


@pytest.mark.feature("Automatic memory sizing (no hand-tuned budget)")
def test_groups_share_bytes_where_not_every_sequence_may_be_long(monkeypatch):
    monkeypatch.setattr("vtcore.system_pages.SIZE", 4096)
    page = 2 * 2 * 8192
    limit = FIXED + 2 * page + page * (4 + 3) * 2
    plan, divided = (plan_memory(needs, EVEN, CONFIG, CACHE, limit) for needs in (SHARES, NEEDS))
    assert (plan.shared, plan.kv_cache, plan.total) == (page * 14, divided.kv_cache, divided.total)
    assert list(divided.pages.values()) == [1 + 8, 1 + 6]
    assert list(plan.pages.values()) == [1 + 14, 1 + 12]  # all bytes, or as many as four sequences ever need
    assert (plan.sequences, divided.sequences) == (2.0, 2.0)
    assert "2.0 sequences of full length at once, in bytes that 2 groups of layers share)" in str(plan)
    assert "share" not in str(divided)
    assert plan.json()["shared"] == page * 14


def test_groups_share_nothing_where_it_would_change_nothing_or_can_not_be_done(monkeypatch):
    monkeypatch.setattr("vtcore.system_pages.SIZE", 4096)
    page = 2 * 2 * 8192
    limit = FIXED + 2 * page + page * (4 + 3) * 2
    assert plan_memory(SHARES, EVEN, CONFIG, CACHE, "1GiB").shared == 0  # all of them have room for the worst
    assert plan_memory(SHARES, EVEN, CONFIG, replace(CACHE, num_gpu_blocks_override=7), limit).shared == 0
    assert plan_memory(SHARES, {key: s for key, s in EVEN.items() if s.window}, CONFIG, CACHE, FIXED + 7 * page).shared == 0
    assert plan_memory(SHARES, WINDOWED, CONFIG, CACHE, FIXED + 9 * PAGE).shared == 0  # half of a system's page can't be given back


def test_a_limit_lowers_how_many_sequences_fit_and_no_further_than_one():
    limit = FIXED + PAGE * (1 + 4 * 2) + 100
    plan = plan_memory(NEEDS, SPECS, CONFIG, CACHE, limit)
    assert list(plan.pages.values()) == [1 + 4 * 2]
    assert plan.total <= limit
    assert plan_memory(NEEDS, SPECS, CONFIG, CACHE, FIXED + PAGE * 5).pages == dict.fromkeys(plan.pages, 5)
    with pytest.raises(OutOfMemoryError):
        plan_memory(NEEDS, SPECS, CONFIG, CACHE, FIXED + PAGE * 5 - 1)


@pytest.mark.feature("Memory cap with a pre-flight error instead of an OOM")
def test_the_refusal_has_every_part_and_what_lowers_it():
    with pytest.raises(OutOfMemoryError) as refused:
        plan_memory(NEEDS, SPECS, CONFIG, CACHE, FIXED + PAGE * 3)
    for words in (
        "weights",
        "repacked",
        "workspace",
        "KV cache",
        "largest max_model_len that fits is 32",
        "max_num_batched_tokens",
        "memory_limit",
    ):
        assert words in str(refused.value)
    with pytest.raises(OutOfMemoryError, match="No max_model_len is small enough"):
        plan_memory(NEEDS, SPECS, CONFIG, CACHE, 100)


def test_weights_that_do_not_fit_are_planned_layer_by_layer():
    weights = 10**6
    needs = replace(NEEDS, weights=weights, repacked=weights, largest=1000, captures=True)
    plan = plan_memory(needs, SPECS, CONFIG, CACHE, 2 * weights - 1)
    assert (plan.streamed, plan.weights, plan.repacked, plan.captured) == (weights, 1000, 1000, 0)
    assert plan.total < weights
    assert "weights of the largest layer: one at a time, in each step, 976.6 KiB in all" in str(plan)
    assert "each step reads and repacks them layer by layer" in plan.slowly
    assert plan_memory(needs, SPECS, CONFIG, CACHE, 4 * weights).streamed == 0
    assert plan_memory(replace(needs, repacked=0), SPECS, CONFIG, CACHE, weights - 1).repacked == 0
    with pytest.raises(OutOfMemoryError, match="weights, as stored"):
        plan_memory(replace(needs, largest=0), SPECS, CONFIG, CACHE, 2 * weights - 1)


STATEFUL = SPECS | {(3, "s"): State({"matrix": (4, 64)})}  # 1024 bytes a slot


def test_states_have_room_for_some_that_are_kept_but_no_sequence_is_refused_for_them():
    caching, plain = CacheConfig(16, mamba_block_size=16), CacheConfig(16, enable_prefix_caching=False)
    assert list(plan_memory(NEEDS, STATEFUL, CONFIG, caching, "1GiB").pages.values()) == [1 + 4 * 4, 1 + 4 * 3]
    assert list(plan_memory(NEEDS, STATEFUL, CONFIG, plain, "1GiB").pages.values()) == [1 + 4 * 4, 1 + 4]
    least = FIXED + PAGE * 5 + 1024 * 2
    assert list(plan_memory(NEEDS, STATEFUL, CONFIG, caching, least).pages.values()) == [5, 2]
    with pytest.raises(OutOfMemoryError):
        plan_memory(NEEDS, STATEFUL, CONFIG, caching, least - 1)


@given(st.integers(0, 20 * PAGE), st.booleans())
def test_whatever_the_limit_the_sum_is_within_it(spare, states):
    specs = STATEFUL if states else WINDOWED
    least = plan_memory(NEEDS, specs, replace(CONFIG, max_num_seqs=1), CACHE, "1GiB").total + 4 * 4 * 5 * 3
    plan = plan_memory(NEEDS, specs, CONFIG, CACHE, least + spare)
    assert plan.total <= least + spare
    assert 1 <= plan.sequences <= 4


def test_pages_can_be_asked_for():
    plan = plan_memory(NEEDS, WINDOWED, CONFIG, CacheConfig(16, num_gpu_blocks_override=9), "1GiB")
    full, windowed = plan.pages.values()
    assert (full, windowed, plan.sequences) == (9, 1 + 6, 2)
    assert "num_gpu_blocks_override 9, block_size 16: 2.0 sequences of full length at once" in str(plan)
    assert plan.json()["cache"]["num_gpu_blocks_override"] == 9
    with pytest.raises(OutOfMemoryError, match="num_gpu_blocks_override 9"):
        plan_memory(NEEDS, WINDOWED, CONFIG, CacheConfig(16, num_gpu_blocks_override=9), FIXED + PAGE * 9)


def test_the_pages_that_are_asked_for_hold_a_sequence_in_every_group_however_long_the_context_is():
    for length in (1 << 10, 1 << 16):
        plan = plan_memory(NEEDS, WINDOWED, replace(CONFIG, max_model_len=length), CacheConfig(16, num_gpu_blocks_override=9), "1GiB")
        full, windowed = plan.pages.values()
        alone = sequence_pages(WINDOWED, replace(CONFIG, max_model_len=8 * 16), CacheConfig(16))
        assert full == 9
        assert windowed - 1 == min(alone.values()) > 1


@pytest.mark.parametrize(("length", "states"), [(64, 2 * (1 + 1)), (256, 1 + STATES), (1 << 16, 1 + STATES)])
def test_of_pages_that_are_asked_for_states_get_those_that_are_worth_keeping_too(length, states):
    """At 64 tokens two sequences fill eight pages; each keeps one state besides its own, and a longer one, which fills them alone, two."""
    config, cache = replace(CONFIG, max_model_len=length), CacheConfig(16, num_gpu_blocks_override=9)
    pages, slots = plan_memory(NEEDS, STATEFUL, config, cache, "1GiB").pages.values()
    assert (pages, slots) == (9, 1 + states)
    never = plan_memory(NEEDS, STATEFUL, config, replace(cache, enable_prefix_caching=False), "1GiB").pages.values()
    assert list(never) == [9, 1 + (2 if length == 64 else 1)]


def test_of_slots_that_are_asked_for_there_are_no_more():
    only = {(0, "state"): State({"s": (4, 8)})}
    assert list(plan_memory(NEEDS, only, CONFIG, CacheConfig(16, num_gpu_blocks_override=9), "1GiB").pages.values()) == [9]


@pytest.mark.feature("Memory cap with a pre-flight error instead of an OOM")
@pytest.mark.parametrize("over", [1, 80, 81, 239, 241])
def test_the_refusal_names_the_most_sequences_that_would_fit(over):
    """Each sequence costs a row of logits, of which a step of sampling holds four: 80 bytes."""
    with pytest.raises(OutOfMemoryError) as refused:
        plan_memory(NEEDS, SPECS, CONFIG, CACHE, FIXED + PAGE * 5 - over)
    fits = 4 - -(-over // 80)
    words = (
        f"at this max_model_len, the largest max_num_seqs is {fits}"
        if fits
        else "at this max_model_len no max_num_seqs and no max_num_batched_tokens fits"
    )
    assert words in str(refused.value)
    if fits:
        plan_memory(NEEDS, SPECS, replace(CONFIG, max_num_seqs=fits), CACHE, FIXED + PAGE * 5 - over)


@given(st.sampled_from([SPECS, WINDOWED]), st.integers(40, 2000), st.integers(1, 600), st.integers(4, 200), st.integers(1, 40))
def test_what_a_refusal_says_would_fit_does_and_one_more_does_not(specs, room, length, step, each):
    needs, config = replace(NEEDS, token_bytes=each), SchedulerConfig(4, step, length)
    limit = 1500 + 4 * 4 * 5 * (1 + 64) + room * 128
    try:
        plan_memory(needs, specs, config, CACHE, limit)
    except OutOfMemoryError as refused:
        for name, value in re.findall(r"largest (\w+) (?:that fits )?is (\d+)", str(refused)):
            assert plan_memory(needs, specs, replace(config, **{name: int(value)}), CACHE, limit).total <= limit
            with pytest.raises(OutOfMemoryError):
                plan_memory(needs, specs, replace(config, **{name: int(value) + 1}), CACHE, limit)


def test_a_step_is_planned_for_no_more_tokens_than_all_sequences_have():
    def workspace(specs, **limits):
        return plan_memory(NEEDS, specs, replace(CONFIG, **limits), CACHE, "1GiB").workspace - 4 * 4 * 5 * (4 + 64)

    assert workspace(SPECS) == workspace(SPECS, max_model_len=4) == 10 * 16
    assert workspace(SPECS, max_model_len=3) == 10 * 12
    encoder = SPECS | {(3, "kv"): Paged({"k": (2, 8), "v": (2, 8)}, of="encoder", longest=9)}
    assert workspace(encoder, max_model_len=3) == 10 * 16  # it reads 9 more of each
    assert workspace(encoder, max_model_len=3, max_num_batched_tokens=99) == 10 * 48


def test_recorded_steps_get_a_sixteenth_of_a_limit_at_most():
    captures = replace(NEEDS, captures=True)
    assert plan_memory(NEEDS, SPECS, CONFIG, CACHE, "1GiB").captured == 0
    assert plan_memory(captures, SPECS, CONFIG, CACHE, "1GiB").captured == 64 << 20
    assert plan_memory(captures, SPECS, CONFIG, CACHE, "64GiB").captured == 256 << 20
    assert "64.0 MiB  recorded steps" in str(plan_memory(captures, SPECS, CONFIG, CACHE, "1GiB"))


@pytest.mark.parametrize(("text", "count"), [("4GiB", 4 << 30), ("1.5k", 1536), ("800M", 800 << 20), ("7", 7), ("2 TB", 2 << 40), (9, 9)])
def test_sizes(text, count):
    assert memory_limit(text) == count


@pytest.mark.parametrize("wrong", ["", "4X", "-1", "0", 0, -5, True, 1.5, "nan", "4 4"])
def test_what_is_no_size(wrong):
    with pytest.raises(ArgumentError, match="memory_limit"):
        memory_limit(wrong)


def test_by_default_a_tenth_of_what_is_free_is_left(monkeypatch):
    monkeypatch.setattr("vtcore.memory_plan.available_memory", lambda: 1000)
    assert memory_limit(None) == 900


def test_a_control_group_caps_the_machine(tmp_path):
    assert available.control_group(tmp_path) is None
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("700\n")
    (tmp_path / "memory.stat").write_text("anon 400\ninactive_file 100\nactive_file 50\n")
    assert available.control_group(tmp_path) == 450
    (tmp_path / "memory.max").write_text("max\n")
    assert available.control_group(tmp_path) is None


def test_the_machine_says_what_is_available(tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal: 4 kB\nMemAvailable:       3 kB\n")
    assert available.machine(tmp_path / "meminfo") == 3072
    assert (available.machine(tmp_path / "none") or 1) > 0


def test_for_people():
    assert gib(3 << 30) == "3.00 GiB"
    assert gib(1 << 20) == "1.0 MiB"
