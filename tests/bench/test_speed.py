"""What is timed: whole steps, of prompts of the length that was asked for, and nothing stays behind."""

from __future__ import annotations

import pytest

from tests.tiny import Bytes, Script, engine
from vtcore.bench.speed import Pace, Prompts, decode, decoding, prefill, stepped
from vtcore.bench.trace import Trace, native_time
from vtcore.errors import VtcoreError


class Merging(Bytes):
    """Pairs of equal letters are one token when they stand at the start: a text cut by ids may have more or fewer of them."""

    def encode(self, text, add_special_tokens=True):
        return [1, *super().encode(text)]


@pytest.mark.parametrize("tokenizer", [None, Bytes(), Merging()])
@pytest.mark.parametrize("length", [1, 7, 60])
def test_prompts_have_the_length_asked_for_and_differ(tokenizer, length):
    prompts = Prompts(engine(Script(), tokenizer=tokenizer))
    drawn = [prompts.draw(length) for _ in range(20)]
    ids = [p() for p in drawn]
    assert {len(i) for i in ids} == {length}
    assert all(0 <= token < 257 for i in ids for token in i)
    assert [p() for p in drawn] == ids  # the same text each time it is taken
    assert len({tuple(i) for i in ids}) > 1 or length == 1


def test_prefill_counts_the_prompt_and_leaves_nothing():
    e = engine(Script())
    pace = prefill(e, Prompts(e).draw(100))  # two steps of at most 64 tokens
    assert pace.tokens == 100
    assert pace.rate == 100 / pace.seconds
    assert e.idle


@pytest.mark.parametrize("batch", [1, 3, 8])
def test_decode_counts_a_token_for_every_sequence_and_step(batch):
    e, model = engine(Script(strength=0.0), pages=400), []
    pace = decode(e, [Prompts(e).draw(20) for _ in range(batch)], 5)
    assert (pace.tokens, model) == (5 * batch, [])
    assert e.idle
    assert all(pool.num_free == pool.capacity for pool in e.runner.kv.pools.values())


def test_an_end_of_sequence_ends_nothing():
    e = engine(Script([256] * 60), tokenizer=Bytes())
    assert decode(e, [Prompts(e).draw(4)], 5).tokens == 5


def test_a_cache_too_small_for_the_batch_is_said():
    e = engine(Script(), pages=12)
    with pytest.raises(VtcoreError, match="the cache can't hold 3 sequences at once"):
        decode(e, [Prompts(e).draw(10) for _ in range(3)], 16)
    assert e.idle


@pytest.mark.parametrize("run", [lambda e: prefill(e, Prompts(e).draw(9)), lambda e: decode(e, [Prompts(e).draw(9)], 3)])
def test_a_step_that_raises_leaves_nothing_behind(run):
    model = Script()
    e = engine(model)

    def broken(batch):
        raise ZeroDivisionError

    model.before = broken
    with pytest.raises(ZeroDivisionError):
        run(e)
    assert e.idle


def test_a_trace_times_every_op_and_lets_go():
    e = engine(Script())
    with Trace(e) as trace:
        prefill(e, Prompts(e).draw(5))
    counted = dict(trace.calls)
    assert counted["add"] == counted["write_pages"] == 1
    assert set(trace.seconds) == set(counted)
    assert all(s > 0 for s in trace.seconds.values())
    prefill(e, Prompts(e).draw(5))
    assert dict(trace.calls) == counted
    assert counted == {r.op: r.calls // 2 for r in e.forward.report().ran}


def test_native_time_is_that_of_the_teams_inside_the_block():
    class Team:
        calls = 0

        def run(self, rows, length, threads=None):
            self.calls += 1

    e = engine(Script())
    team = Team()
    e.forward.providers[0].__dict__["team"] = team
    try:
        with native_time(e) as clock:
            team.run(1, 2)
            team.run(1, 2, threads=3)
        spent = clock.seconds
        assert spent > 0
        team.run(1, 2)
        assert (team.calls, clock.seconds) == (3, spent)
    finally:
        del e.forward.providers[0].__dict__["team"]


def test_what_runs_besides_is_stepped_too():
    e = engine(Script(), pages=400)
    with decoding(e, [Prompts(e).draw(4) for _ in range(2)], 6) as submissions:
        assert all(s.first_token is not None for s in submissions)
        assert stepped(e, 3).tokens == stepped(e, 3).tokens == 6
    assert Pace(6, 2.0).rate == 3.0
