"""Requests in any company, on any terms: the bits that they have alone. All 200 are run by `python tools/random_workloads.py`."""

import pytest

from tools.random_workloads import check, workload

SEEDS = range(200, 212)


@pytest.mark.feature("Continuous batching")
@pytest.mark.feature("Chunked prefill")
@pytest.mark.feature("Preemption and recompute")
@pytest.mark.feature("Automatic prefix caching")
@pytest.mark.feature("KV offload to host memory")
@pytest.mark.feature("Async / overlap scheduling")
def test_every_answer_has_the_bits_that_it_has_alone():
    counts = sum((check(seed) for seed in SEEDS), start=check(199))
    assert all(
        counts[name] for name in ("answers", "found", "preempted", "evicted", "brought", "refused", "aborted", "asynchronous", "stopped")
    )


def test_workloads_differ_in_all_that_they_should():
    works = [workload(seed) for seed in range(200)]
    assert len({w.name for w in works}) == 8
    for option in (
        "scheduling_policy",
        "enable_prefix_caching",
        "prefix_match_unit",
        "num_gpu_blocks_override",
        "capture",
        "async_scheduling",
    ):
        assert len({w.options[option] for w in works}) > 1
