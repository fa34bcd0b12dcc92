"""What the engine says and does about its cache: who shares, who doesn't, and how to forget."""

from dataclasses import replace

import numpy as np
import pytest

from tests.tiny import Script, drain, engine
from vtcore.errors import ArgumentError, PromptError, QueueFullError
from vtcore.kvcache.identity import Identity, Media
from vtcore.prompts import parse_prompt
from vtcore.sampling_params import SamplingParams

GREEDY = SamplingParams(temperature=0, max_tokens=2)
PROMPT = list(range(32))


def cached(e, prompt=PROMPT, params=GREEDY, identity=None, **options):
    submission = e.intake.take(prompt, params, **options)
    if identity is not None:
        submission.identity = identity
    e.enqueue(submission)
    drain(e)
    return submission.output().num_cached_tokens


@pytest.mark.feature("Automatic prefix caching")
@pytest.mark.parametrize(("length", "found"), [(32, 28), (16, 12), (31, 28), (33, 32), (1, 0)])
def test_the_last_token_of_a_prompt_is_always_computed(length, found):
    e = engine(Script())
    cached(e, PROMPT)
    assert cached(e, [*PROMPT, 40][:length]) == found
    assert found <= length - 1


@pytest.mark.feature("Automatic prefix caching")
def test_another_image_at_the_same_tokens_is_another_prompt():
    e = engine(Script())
    images = [Identity(media=(Media(digest, 10, 4),)) for digest in ("black", "white")]
    assert [cached(e, identity=i) for i in images] == [0, 8]
    assert [cached(e, identity=i) for i in images] == [28, 28]
    assert cached(e, identity=replace(images[0], lora="other")) == 0


def test_only_the_same_salt_shares():
    e = engine(Script())
    assert [cached(e, cache_salt=s) for s in (None, "a", "b", "a", None)] == [0, 0, 0, 28, 28]
    for wrong in ("", 5, "half\ud83d"):  # the last one has no bytes to hash, or to tell others
        with pytest.raises(ArgumentError, match="cache_salt is"):
            e.intake.take(PROMPT, GREEDY, cache_salt=wrong)
    assert parse_prompt({"prompt_token_ids": PROMPT, "cache_salt": "a"}).cache_salt == "a"
    with pytest.raises(PromptError, match="cache_salt"):
        parse_prompt({"cache_salt": "a"})


def test_who_doesn_t_read_the_cache_still_fills_it():
    e = engine(Script())
    skips = replace(GREEDY, skip_reading_prefix_cache=True)
    assert [cached(e, params=p) for p in (skips, GREEDY, skips)] == [0, 28, 0]
    with pytest.raises(ArgumentError, match="they need every token of the prompt computed"):
        SamplingParams(prompt_logprobs=1, skip_reading_prefix_cache=False)


def test_without_prefix_caching_nothing_is_kept():
    e = engine(Script(), enable_prefix_caching=False)
    assert [cached(e), cached(e)] == [0, 0]
    assert [p.cached for p in e.stats().cache.pools.values()] == [0]


def test_a_reset_waits_for_whoever_runs_or_preempts_them():
    e = engine(Script(b"x" * 60))
    cached(e)
    assert e.reset_prefix_cache()
    assert cached(e) == 0
    running = e.submit(PROMPT, SamplingParams(temperature=0, max_tokens=5))
    e.step()
    e.step()
    assert not e.reset_prefix_cache()
    assert e.reset_prefix_cache(reset_running_requests=True)
    drain(e)
    assert len(running.output().outputs[0].token_ids) == 5
    assert running.output().metrics.num_preemptions == 1
    assert e.stats().preemptions == 1


def test_what_was_found_is_counted_in_tokens_and_pages_add_up():
    e = engine(Script(), pages=20)
    cached(e)
    cached(e)
    stats = e.stats()
    assert (stats.waiting, stats.running, stats.cache.queries, stats.cache.hits) == (0, 0, 64, 28)
    [pool] = stats.cache.pools.values()
    assert (pool.held, pool.free, pool.total) == (0, 19, 19)
    assert pool.cached == 8


@pytest.mark.feature("Priority scheduling")
def test_a_priority_needs_the_policy_of_that_name():
    with pytest.raises(ArgumentError, match="priority is 1 and has no effect under scheduling_policy 'fcfs'"):
        engine(Script()).submit([1], GREEDY, priority=1)
    e = engine(Script(), scheduling_policy="priority", max_num_seqs=1)
    with pytest.raises(ArgumentError, match="priority is True; it must be an integer"):
        e.submit([1], GREEDY, priority=True)
    late, soon = e.submit([1], GREEDY, priority=np.int64(5)), e.submit([1], GREEDY, priority=-5)
    e.step()
    assert (late.first_scheduled, soon.first_scheduled is None) == (None, False)
    drain(e)


def test_a_full_queue_refuses_one_request_and_serves_the_others():
    e = engine(Script(), max_num_seqs=1, max_num_queued_reqs=1)
    kept = [e.submit([1], GREEDY) for _ in range(2)]
    with pytest.raises(QueueFullError, match="2 sequences would wait beside the 1 sequences that may run; max_num_queued_reqs is 1"):
        e.submit([1], GREEDY, request_id="again")
    drain(e)
    assert all(s.finished for s in kept)
    e.submit([1], GREEDY, request_id="again")
    drain(e)
