"""A decoder that attends to an encoder: its pages are written once, read in every step, and given back at the end."""

import numpy as np
import pytest

from tests.encoder_decoder import LONGEST, SPECS, VOCAB, EncoderDecoder, plain
from vtcore.dispatch import Dispatcher
from vtcore.engine import Engine
from vtcore.errors import ArgumentError, PromptError
from vtcore.intake import Intake
from vtcore.kvcache.cache import Cache, Paged
from vtcore.kvcache.config import CacheConfig
from vtcore.kvcache.manager import KVCacheManager
from vtcore.memory_plan import Needs, plan_memory
from vtcore.plans import Plans
from vtcore.providers import chain
from vtcore.runner import Runner
from vtcore.sampling_params import SamplingParams
from vtcore.scheduler.config import SchedulerConfig
from vtcore.scheduler.scheduler import Scheduler

RNG = np.random.default_rng(1)
ASKED = [(RNG.integers(0, VOCAB, e).tolist(), RNG.integers(0, VOCAB, d).tolist()) for e, d in ((5, 1), (24, 9), (1, 4), (17, 13), (8, 2))]
CROSS = next(s.group for s in SPECS.values() if s.of == "encoder")
TEXT = next(s.group for s in SPECS.values() if s.of == "text")
ANSWER = SamplingParams(temperature=0, max_tokens=7, logprobs=2)


def engine(seqs=5, step=64, text=40, provider="portable", replays=True):
    config = SchedulerConfig(max_num_seqs=seqs, max_num_batched_tokens=step, max_model_len=64)
    cache = Cache(SPECS, {TEXT: text, CROSS: 40}, 4)
    kv = KVCacheManager(cache.groups, cache.pages, CacheConfig(4))
    runs = Dispatcher(chain(provider))
    model = EncoderDecoder()
    plans = Plans(runs if replays else None, 64 << 20)
    return Engine(Runner(model, cache, kv, plans), Scheduler(config, kv), Intake(VOCAB, config, kv), runs), model


def answers(e, asked, params=ANSWER):
    submissions = [e.submit(prompt, params, encoder_token_ids=encoder) for encoder, prompt in asked]
    most = 0
    while not e.idle:
        e.step()
        most = max(most, e.scheduler.kv.pools[CROSS].num_held)
    return [s.output().outputs[0] for s in submissions], most


@pytest.mark.parametrize("provider", ["reference", "portable"])
def test_answers_are_those_of_plain_numpy(provider):
    got, _ = answers(engine(provider=provider)[0], ASKED)
    for (encoder, prompt), answer in zip(ASKED, got, strict=True):
        logits = plain(encoder, prompt + answer.token_ids)[len(prompt) - 1 : -1]
        assert answer.token_ids == logits.argmax(-1).tolist()
        exact = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        said = [step[token].logprob for step, token in zip(answer.logprobs, answer.token_ids, strict=True)]
        np.testing.assert_allclose(said, exact.max(-1), atol=1e-4)


@pytest.mark.feature("Hybrid KV groups (full attention + GDN/Mamba)")
@pytest.mark.parametrize("options", [{}, {"step": 5}, {"seqs": 2}, {"replays": False}, {"text": 8}])
def test_the_same_bits_alone_and_together_in_chunks_and_after_preemption(options):
    alone = [answers(engine()[0], [one])[0][0] for one in ASKED]
    e, _ = engine(**options)
    for _ in range(2):
        assert answers(e, ASKED)[0] == alone
        assert e.scheduler.kv.usage == 0
    assert (e.scheduler.num_preemptions > 0) == ("text" in options)


def test_an_encoder_runs_once_a_request_and_its_pages_stay_as_many_as_it_said_tokens():
    e, model = engine(replays=False)
    _, most = answers(e, ASKED[1:2], SamplingParams(temperature=0, max_tokens=30, ignore_eos=True))
    assert model.encoded == 24
    assert most == 6
    assert e.scheduler.kv.usage == 0
    answers(e, ASKED[1:2])
    assert model.encoded == 48  # nothing of it is found again
    assert e.stats().cache.hits == 0


def test_another_input_of_the_encoder_is_another_answer():
    [a, b], _ = answers(engine()[0], [(ASKED[1][0], ASKED[3][1]), (ASKED[3][0], ASKED[3][1])])
    assert a.token_ids != b.token_ids


@pytest.mark.parametrize(
    ("ids", "words"), [([], "0 tokens; this model's encoder reads from 1 to 24"), ([1] * 25, "25 tokens"), ([61], "holds 61")]
)
def test_what_an_encoder_can_not_read_is_refused(ids, words):
    with pytest.raises(PromptError, match=words):
        engine()[0].submit([1], ANSWER, encoder_token_ids=ids)


def test_a_model_without_an_encoder_takes_no_input_for_one():
    kv = KVCacheManager({TEXT: Paged({"k": (1, 4)})}, {TEXT: 9}, 4)
    with pytest.raises(ArgumentError, match="this model has no encoder"):
        Intake(VOCAB, SchedulerConfig(max_model_len=16), kv).take([1], ANSWER, encoder_token_ids=[1])


def test_memory_has_room_for_each_sequence_s_encoder():
    plan = plan_memory(Needs(0, 0, 1, 5), SPECS, SchedulerConfig(max_num_seqs=3, max_model_len=64), CacheConfig(4), "1GiB")
    assert plan.pages == {TEXT: 1 + 3 * 16, CROSS: 1 + 3 * LONGEST // 4}
