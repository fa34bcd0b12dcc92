"""LLM: prompts in their forms, options that have effects, and nothing half done where something is wrong."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.patience import SECONDS
from tests.talking import GREEDY, SAYS
from tests.tiny import EOS, Bytes
from vtcore import llm as module
from vtcore.errors import (
    ArgumentError,
    OutOfMemoryError,
    PromptError,
    TemplateError,
    VtcoreError,
)
from vtcore.prompts import parse_prompt
from vtcore.sampling_params import SamplingParams


def texts(outputs):
    return [o.outputs[0].text for o in outputs]


@pytest.mark.parametrize(
    ("prompts", "count"),
    [
        ("ab", 1),
        ([97, 98], 1),
        ((97, 98), 1),
        (np.array([97, 98]), 1),
        ({"prompt_token_ids": [97, 98]}, 1),
        ({"prompt": "ab"}, 1),
        (["ab", {"prompt_token_ids": np.array([1, 2])}, [3, 4], {"prompt": "cd"}], 4),
        ([], 0),
    ],
)
def test_prompts_in_every_form(talking, prompts, count):
    outputs = talking().generate(prompts, GREEDY)
    assert texts(outputs) == ["hello"] * count
    assert all(o.finished and o.outputs[0].finish_reason == "stop" for o in outputs)


def test_outputs_carry_their_prompts_in_order(talking):
    outputs = talking().generate(["ab", [3, 4]], GREEDY)
    assert [(o.prompt, o.prompt_token_ids) for o in outputs] == [("ab", [97, 98]), (None, [3, 4])]
    assert outputs[0].outputs[0].token_ids == [*b"hello", EOS]
    json.dumps(outputs[0].json())


@pytest.mark.parametrize(
    ("prompts", "words"),
    [
        ("", "no tokens"),
        ([[]], "no tokens"),
        ({"prompt_token_ids": []}, "no tokens"),
        ([1, 300], "300; a token id is an integer from 0 to 256"),
        ([1, -1], "-1"),
        ([1, 2.5], "2.5"),
        (["ab", None], "prompt 1: None is no prompt"),
        (["ab", {"text": "x"}], "prompt 1: a mapping with 'text'"),
        ({"prompt": 3}, "a mapping with 'prompt'"),
        (3, "prompts is int"),
        (b"ab", "prompts is bytes"),
        ({"prompt_token_ids": None}, "'prompt_token_ids': NoneType is no prompt"),
        ({"prompt_token_ids": 5}, "'prompt_token_ids': int is no prompt"),
        ({"prompt_token_ids": {1}}, "'prompt_token_ids': set is no prompt"),
        ({"prompt_token_ids": np.array([], int)}, "no tokens"),
        ([True, False], "holds True"),
        ("x" * 128, "128 tokens; with max_model_len 128 it may have 127"),
        (["ab", "x" * 200], "200 tokens"),
    ],
)
def test_a_wrong_prompt_is_named_and_nothing_runs(talking, prompts, words):
    llm = talking()
    with pytest.raises(PromptError, match=words):
        llm.generate(prompts, GREEDY)
    assert llm.engine.idle
    assert llm.report().ran == ()
    assert texts(llm.generate("ab", GREEDY)) == ["hello"]


def test_parameters_for_all_or_one_each(talking):
    llm = talking()
    assert texts(llm.generate(["ab", "ab"], [GREEDY, SamplingParams(temperature=0, max_tokens=2)])) == ["hello", "he"]
    assert len(llm.generate("ab")[0].outputs[0].token_ids) <= 16
    for wrong in ([GREEDY], {"temperature": 0}, [GREEDY, None], "greedy"):
        with pytest.raises(ArgumentError, match="sampling_params"):
            llm.generate(["ab", "ab"], wrong)


@pytest.mark.parametrize("bias", [{99999: 5}, {257: 1}])
def test_parameters_that_do_not_fit_the_model(talking, bias):
    llm = talking()
    with pytest.raises(ArgumentError, match="logit_bias holds"):
        llm.generate(["ab", "ab"], [GREEDY, SamplingParams(logit_bias=bias)])
    assert texts(llm.generate("ab", GREEDY)) == ["hello"]


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"logprobs": 258}, "logprobs is 258; the vocabulary has 257 tokens"),
        ({"prompt_logprobs": 10**9}, "prompt_logprobs is 1000000000"),
        ({"min_tokens": 1, "stop_token_ids": range(257)}, "all tokens of the vocabulary end the sequence"),
        ({"min_tokens": 1, "stop_token_ids": [5], "allowed_token_ids": [5, EOS]}, "all of allowed_token_ids end the sequence"),
        ({"allowed_token_ids": [ord("a")], "bad_words": ["a"]}, "bad_words forbid all of allowed_token_ids"),
        ({"min_tokens": 10**6, "max_tokens": None}, r"min_tokens is 1000000; after 2 prompt tokens max_model_len \d+ leaves room for \d+"),
    ],
)
def test_parameters_that_leave_nothing_to_choose_or_to_tell(talking, params, words):
    llm = talking()
    with pytest.raises(ArgumentError, match=words):
        llm.generate("ab", SamplingParams(**params))
    assert len(llm.generate("ab", SamplingParams(logprobs=257))[0].outputs[0].logprobs[0]) == 257


@pytest.mark.parametrize("messages", [5, {"role": "user"}, "hi", (m for m in [{"role": "user", "content": "x"}])])
def test_messages_are_a_list(talking, messages):
    with pytest.raises(PromptError, match=r"messages is .*; it must be a list"):
        talking().chat(messages)


@pytest.mark.parametrize("tools", [5, "search", ["search"], {"name": "search"}])
def test_tools_are_a_list_of_schemas(talking, tools):
    with pytest.raises(ArgumentError, match=r"tools is .*; it must be a list of JSON schemas"):
        talking().chat([{"role": "user", "content": "x"}], tools=tools)


def test_a_stream_is_the_same_text_in_pieces(talking):
    llm = talking()
    deltas = list(llm.stream("ab", GREEDY))
    assert [d.text for d in deltas] == [*"hello", ""]
    assert [i for d in deltas for i in d.token_ids] == llm.generate("ab", GREEDY)[0].outputs[0].token_ids
    assert deltas[-1].finish_reason == "stop"


def test_a_stream_checks_its_prompt_at_once_and_runs_later(talking):
    llm = talking()
    with pytest.raises(PromptError):
        llm.stream("", GREEDY)
    llm.stream("ab", GREEDY)
    assert llm.engine.idle


def test_a_stream_that_is_closed_frees_at_once_and_others_go_on(talking):
    llm = talking()
    first, second = llm.stream("ab", GREEDY), llm.stream("cd", GREEDY)
    assert (next(first).text, next(second).text) == ("h", "h")
    first.close()
    assert "".join(d.text for d in second) == "ello"
    assert llm.engine.idle
    assert llm.engine.scheduler.kv.usage == 0


def test_a_stream_goes_on_while_others_are_generated(talking):
    llm = talking()
    stream = llm.stream("ab", GREEDY)
    start = next(stream).text
    assert texts(llm.generate(["ab", "cd"], GREEDY)) == ["hello", "hello"]
    assert start + "".join(d.text for d in stream) == "hello"


def test_a_fault_in_a_step_fails_that_call_alone(talking, monkeypatch):
    llm = talking()
    run = llm.engine.runner.run

    def fail(plan):
        raise RuntimeError("device lost")

    monkeypatch.setattr(llm.engine.runner, "run", fail)
    with pytest.raises(RuntimeError, match="device lost"):
        llm.generate(["ab", "cd"], GREEDY)
    monkeypatch.setattr(llm.engine.runner, "run", run)
    assert llm.engine.idle
    assert texts(llm.generate("ab", GREEDY)) == ["hello"]


def test_a_fault_of_a_request_reaches_whoever_asked_for_it_and_nobody_else(talking, monkeypatch):
    llm, kind = talking(), type(Bytes().stream())
    monkeypatch.setattr(kind, "push", lambda self, i: (_ for _ in ()).throw(KeyError("a broken vocabulary")))
    bad = llm.stream("ab", GREEDY)
    good = llm.take(parse_prompt("ab"), SamplingParams(temperature=0, max_tokens=3, detokenize=False))
    llm.engine.enqueue(good)
    with pytest.raises(KeyError, match="broken vocabulary"):
        next(bad)
    queued = llm.take(parse_prompt("ab"), GREEDY)
    llm.engine.enqueue(queued)
    assert llm.generate("ab", SamplingParams(temperature=0, max_tokens=3, detokenize=False))[0].outputs[0].token_ids == [*b"hel"]
    assert good.output().outputs[0].token_ids == [*b"hel"]
    with pytest.raises(KeyError, match="broken vocabulary"):
        queued.output()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_closing_while_another_thread_generates_is_that_ones_error(talking, asynchronous, monkeypatch):
    llm, (begun, closing, closed) = talking(async_scheduling=asynchronous), (threading.Event() for _ in range(3))
    run, step = llm.engine.runner.run, llm.engine.step
    monkeypatch.setattr(llm.engine.runner, "run", lambda planned: (begun.set(), closing.wait(SECONDS), run(planned))[2])
    monkeypatch.setattr(llm.engine, "step", lambda: (step(), closed.wait(SECONDS))[0])  # one, and no more before it is closed
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(llm.generate, ["ab"] * 2, SamplingParams(temperature=0, max_tokens=60, ignore_eos=True))
        assert begun.wait(SECONDS)
        closing.set()
        llm.close()
        closed.set()
        with pytest.raises(VtcoreError, match="closed before the request ended"):
            asked.result(SECONDS)
    with pytest.raises(VtcoreError, match="is closed"):
        llm.engine.submit([1], GREEDY)


def test_threads_share_an_engine(talking):
    llm = talking()
    with ThreadPoolExecutor(4) as pool:
        several = list(pool.map(lambda i: texts(llm.generate(["ab"] * (i % 3 + 1), GREEDY)), range(12)))
    assert several == [["hello"] * (i % 3 + 1) for i in range(12)]
    assert llm.engine.scheduler.kv.usage == 0


def test_chat_renders_and_adds_no_second_beginning(talking):
    llm = talking()
    hi = [{"role": "user", "content": "hi"}]
    [out] = llm.chat(hi, GREEDY)
    assert (out.prompt, out.prompt_token_ids, out.outputs[0].text) == ("hi", list(b"hi"), "hello")
    assert [o.prompt for o in llm.chat([hi, hi], GREEDY, prefix=">")] == [">hi", ">hi"]
    with pytest.raises(PromptError, match="no messages"):
        llm.chat([], GREEDY)
    with pytest.raises(TemplateError, match="nobody"):
        llm.chat([hi, [{"role": "nobody", "content": ""}]], GREEDY)
    assert llm.engine.idle


def test_logits_of_every_token(talking, monkeypatch):
    llm = talking()
    logits = llm.logits([1, 2, 3])
    assert (logits.shape, logits.dtype) == ((3, 257), np.float32)
    assert logits.argmax(-1).tolist() == SAYS[:3]
    assert llm.logits(np.arange(100)).shape == (100, 257)
    with pytest.raises(PromptError, match="129 tokens; with max_model_len 128 it may have 128"):
        llm.logits([1] * 129)
    for wrong, words in (([], "no tokens"), ("ab", "takes token ids"), (5, "5 is no prompt"), (np.zeros((2, 2), int), "is no prompt")):
        with pytest.raises(PromptError, match=words):
            llm.logits(wrong)
    monkeypatch.setattr(module, "available_memory", lambda: 1 << 16)
    with pytest.raises(OutOfMemoryError, match=r"logits of 100 tokens take 200\.8 KiB; 64\.0 KiB are available"):
        llm.logits([1] * 100)


@pytest.mark.parametrize("priority", [0, "1", {0: 1}])
def test_priorities_that_are_no_list_are_refused(talking, priority):
    with pytest.raises(ArgumentError, match=r"priority is .*; it must be a list with an integer for each prompt"):
        talking().generate(["ab"], GREEDY, priority=priority)
