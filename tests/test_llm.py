"""LLM: prompts in their forms, options that have effects, and nothing half done where something is wrong."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.checkpoints import random_llama
from tests.scripted import script
from tests.tiny import EOS, Bytes
from vtcore import llm as module
from vtcore.errors import (
    ArgumentError,
    ConfigError,
    DeclinedError,
    ModelNotFoundError,
    OutOfMemoryError,
    PromptError,
    TemplateError,
    TokenizerError,
    VtcoreError,
)
from vtcore.llm import LLM
from vtcore.memory import HOST
from vtcore.sampling_params import SamplingParams

GREEDY = SamplingParams(temperature=0, max_tokens=20)
SAYS = [32, *b"hello", EOS]  # after a prompt of two tokens: hello


class Template:
    """Renders the last message, for as long as there is one from somebody."""

    def render(self, messages, tools=None, **options):
        if messages[-1]["role"] == "nobody":
            raise TemplateError("nobody may not speak")
        return options.get("prefix", "") + messages[-1]["content"]


class Chatty(Bytes):
    def template(self, chat_template=None, tools=None):
        return Template()


@pytest.fixture
def make(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "find_tokenizer", lambda checkpoint: Chatty())
    made = []

    def build(says=SAYS, **options):
        made.append(LLM(script(tmp_path / "script", says), **{"providers": "reference"} | options))
        return made[-1]

    yield build
    for llm in made:
        llm.close()


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
def test_prompts_in_every_form(make, prompts, count):
    outputs = make().generate(prompts, GREEDY)
    assert texts(outputs) == ["hello"] * count
    assert all(o.finished and o.outputs[0].finish_reason == "stop" for o in outputs)


def test_outputs_carry_their_prompts_in_order(make):
    outputs = make().generate(["ab", [3, 4]], GREEDY)
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
def test_a_wrong_prompt_is_named_and_nothing_runs(make, prompts, words):
    llm = make()
    with pytest.raises(PromptError, match=words):
        llm.generate(prompts, GREEDY)
    assert llm.engine.idle
    assert llm.report().ran == ()
    assert texts(llm.generate("ab", GREEDY)) == ["hello"]


def test_parameters_for_all_or_one_each(make):
    llm = make()
    assert texts(llm.generate(["ab", "ab"], [GREEDY, SamplingParams(temperature=0, max_tokens=2)])) == ["hello", "he"]
    assert len(llm.generate("ab")[0].outputs[0].token_ids) <= 16
    for wrong in ([GREEDY], {"temperature": 0}, [GREEDY, None], "greedy"):
        with pytest.raises(ArgumentError, match="sampling_params"):
            llm.generate(["ab", "ab"], wrong)


@pytest.mark.parametrize("bias", [{99999: 5}, {257: 1}])
def test_parameters_that_do_not_fit_the_model(make, bias):
    llm = make()
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
    ],
)
def test_parameters_that_leave_nothing_to_choose_or_to_tell(make, params, words):
    llm = make()
    with pytest.raises(ArgumentError, match=words):
        llm.generate("ab", SamplingParams(**params))
    assert len(llm.generate("ab", SamplingParams(logprobs=257))[0].outputs[0].logprobs[0]) == 257


@pytest.mark.parametrize("messages", [5, {"role": "user"}, "hi", (m for m in [{"role": "user", "content": "x"}])])
def test_messages_are_a_list(make, messages):
    with pytest.raises(PromptError, match=r"messages is .*; it must be a list"):
        make().chat(messages)


@pytest.mark.parametrize("tools", [5, "search", ["search"], {"name": "search"}])
def test_tools_are_a_list_of_schemas(make, tools):
    with pytest.raises(ArgumentError, match=r"tools is .*; it must be a list of JSON schemas"):
        make().chat([{"role": "user", "content": "x"}], tools=tools)


def test_a_stream_is_the_same_text_in_pieces(make):
    llm = make()
    deltas = list(llm.stream("ab", GREEDY))
    assert [d.text for d in deltas] == [*"hello", ""]
    assert [i for d in deltas for i in d.token_ids] == llm.generate("ab", GREEDY)[0].outputs[0].token_ids
    assert deltas[-1].finish_reason == "stop"


def test_a_stream_checks_its_prompt_at_once_and_runs_later(make):
    llm = make()
    with pytest.raises(PromptError):
        llm.stream("", GREEDY)
    llm.stream("ab", GREEDY)
    assert llm.engine.idle


def test_a_stream_that_is_closed_frees_at_once_and_others_go_on(make):
    llm = make()
    first, second = llm.stream("ab", GREEDY), llm.stream("cd", GREEDY)
    assert (next(first).text, next(second).text) == ("h", "h")
    first.close()
    assert "".join(d.text for d in second) == "ello"
    assert llm.engine.idle
    assert llm.engine.scheduler.kv.usage == 0


def test_a_stream_goes_on_while_others_are_generated(make):
    llm = make()
    stream = llm.stream("ab", GREEDY)
    start = next(stream).text
    assert texts(llm.generate(["ab", "cd"], GREEDY)) == ["hello", "hello"]
    assert start + "".join(d.text for d in stream) == "hello"


def test_a_fault_in_a_step_fails_that_call_alone(make, monkeypatch):
    llm = make()
    run = llm.engine.runner.run

    def fail(plan):
        raise RuntimeError("device lost")

    monkeypatch.setattr(llm.engine.runner, "run", fail)
    with pytest.raises(RuntimeError, match="device lost"):
        llm.generate(["ab", "cd"], GREEDY)
    monkeypatch.setattr(llm.engine.runner, "run", run)
    assert llm.engine.idle
    assert texts(llm.generate("ab", GREEDY)) == ["hello"]


def test_threads_share_an_engine(make):
    llm = make()
    with ThreadPoolExecutor(4) as pool:
        several = list(pool.map(lambda i: texts(llm.generate(["ab"] * (i % 3 + 1), GREEDY)), range(12)))
    assert several == [["hello"] * (i % 3 + 1) for i in range(12)]
    assert llm.engine.scheduler.kv.usage == 0


def test_chat_renders_and_adds_no_second_beginning(make):
    llm = make()
    hi = [{"role": "user", "content": "hi"}]
    [out] = llm.chat(hi, GREEDY)
    assert (out.prompt, out.prompt_token_ids, out.outputs[0].text) == ("hi", list(b"hi"), "hello")
    assert [o.prompt for o in llm.chat([hi, hi], GREEDY, prefix=">")] == [">hi", ">hi"]
    with pytest.raises(PromptError, match="no messages"):
        llm.chat([], GREEDY)
    with pytest.raises(TemplateError, match="nobody"):
        llm.chat([hi, [{"role": "nobody", "content": ""}]], GREEDY)
    assert llm.engine.idle


def test_logits_of_every_token(make, monkeypatch):
    llm = make()
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


def test_without_a_tokenizer_ids_go_in_and_out(tmp_path):
    llm = LLM(script(tmp_path, SAYS), providers="reference")
    out = llm.generate([1, 2], GREEDY)[0].outputs[0]
    assert (out.text, out.token_ids[:5], out.finish_reason) == ("", list(b"hello"), "length")
    told = LLM(script(tmp_path, SAYS, eos_token_id=[EOS, 3]), providers="reference")
    assert told.generate([1, 2], GREEDY)[0].outputs[0].token_ids == [*b"hello", EOS]
    for call in (lambda: llm.generate("ab"), lambda: llm.tokenizer, lambda: llm.chat([{"role": "user", "content": "x"}])):
        with pytest.raises(TokenizerError, match="no tokenizer"):
            call()


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"numerics": "quick"}, ArgumentError, "exact or fast"),
        ({"numerics": "fast"}, ArgumentError, "no effect: it needs weights in blocks"),
        ({"numerics": "fast", "dtype": "bfloat16"}, ArgumentError, "choose one"),
        ({"dtype": "bf16"}, ArgumentError, "bfloat16 or float16"),
        ({"providers": "gpu"}, ArgumentError, "there is no provider 'gpu'"),
        ({"providers": []}, ArgumentError, "empty"),
        ({"providers": "null"}, ArgumentError, "no token could come of it"),
        ({"threads": 2}, ArgumentError, "no provider of reference computes with threads"),
        ({"providers": "portable", "threads": 0}, ArgumentError, "threads is 0"),
        ({"max_model_len": 0}, ArgumentError, "max_model_len is 0"),
        ({"max_model_len": 129}, ArgumentError, "up to 128 tokens"),
        ({"max_model_len": True}, ArgumentError, "max_model_len is True"),
        ({"block_size": 0}, ArgumentError, "block_size is 0"),
        ({"block_size": None}, ArgumentError, "block_size is None"),
        ({"providers": "portable", "threads": 1 << 31}, ArgumentError, "threads is 2147483648; it must be an integer from 1 to 1024"),
        ({"providers": 5}, ArgumentError, "providers is 5; it must be names"),
        ({"providers": [b"portable"]}, ArgumentError, "providers is .*; it must be names"),
        ({"progress": None}, ArgumentError, "progress is None; it must be a function"),
        ({"max_num_seqs": 0}, ArgumentError, "max_num_seqs is 0"),
        ({"max_num_seqs": 600}, ArgumentError, "at least max_num_seqs"),
        ({"strict": 1}, ArgumentError, "strict is 1"),
        ({"memory_limit": "lots"}, ArgumentError, "memory_limit is 'lots'"),
        ({"memory_limit": 1000}, OutOfMemoryError, "No max_model_len is small enough"),
    ],
)
def test_an_option_that_can_have_no_effect_is_refused(make, options, error, words):
    with pytest.raises(error, match=words):
        make(**options)


def test_too_much_is_refused_before_it_is_allocated(tmp_path):
    path, made = random_llama(tmp_path, max_position_embeddings=1 << 20), HOST.made
    with pytest.raises(OutOfMemoryError, match=r"256\.0 MiB KV cache in float32 .* largest max_model_len that fits is"):
        LLM(path, providers="reference", memory_limit="200MiB")
    assert HOST.made - made < 1 << 20


def test_an_unknown_option_is_an_error(make):
    with pytest.raises(ArgumentError, match=r"tensor_parallel_size is no option of LLM; .* there are .*scheduling_policy"):
        make(tensor_parallel_size=2)


@pytest.mark.parametrize("model", [None, 5, b"x", ""])
def test_a_model_is_a_path_or_a_name(model):
    with pytest.raises(ArgumentError, match="it must be a path or a name"):
        LLM(model)


@pytest.mark.parametrize("said", ["a", [1, "a"], [True], -1, [1 << 40], {"a": 1}])
@pytest.mark.parametrize("file", ["config", "generation_config"])
def test_ends_that_are_no_ids_are_named(tmp_path, file, said):
    path = script(tmp_path, SAYS)
    config = json.loads((path / "config.json").read_text()) if file == "config" else {}
    (path / f"{file}.json").write_text(json.dumps(config | {"eos_token_id": said}))
    with pytest.raises(ConfigError, match=rf"/{file}\.json: eos_token_id is .*; it must be a token id"):
        LLM(path, providers="reference")


def test_no_such_model(tmp_path):
    with pytest.raises(ModelNotFoundError):
        LLM(tmp_path / "nothing")


def test_options_have_their_effects(make):
    llm = make(max_model_len=16, max_num_seqs=2, max_num_batched_tokens=4, block_size=4, memory_limit="1GiB")
    assert llm.generate([1] * 15, SamplingParams(max_tokens=None))[0].outputs[0].finish_reason == "length"
    assert (llm.memory_plan.block_size, llm.memory_plan.limit) == (4, 1 << 30)
    assert llm.model_config.max_model_len == 16
    with pytest.raises(PromptError, match="max_model_len 16"):
        llm.generate([1] * 16)


def test_strict_makes_a_decline_an_error(tmp_path):
    (tmp_path / "mine.py").write_text("from vtcore.provider import Provider\nprovider = Provider('mine')\n")
    with (
        LLM(script(tmp_path / "m", SAYS), providers=str(tmp_path / "mine.py"), strict=True) as llm,
        pytest.raises(DeclinedError, match="'mine'"),
    ):
        llm.generate([1], GREEDY)
    with LLM(script(tmp_path / "m", SAYS), providers=[str(tmp_path / "mine.py"), "reference"]) as llm:
        llm.generate([1], GREEDY)
        assert {d.provider for d in llm.report().declined} == {"mine"}
        assert {r.provider for r in llm.report().ran} == {"reference"}


def test_rounding_is_seen_in_the_logits(tmp_path):
    path = random_llama(tmp_path)
    exact, rounded = (LLM(path, providers="reference", dtype=d).logits([1, 2, 3]) for d in (None, "bfloat16"))
    assert 1e-4 < np.abs(exact - rounded).max() < 0.05


def test_closed_is_closed(make):
    llm = make()
    stream = llm.stream("ab", GREEDY)
    next(stream)
    llm.close()
    llm.close()
    assert llm.engine.idle
    with pytest.raises(VtcoreError, match="closed"):
        llm.generate("ab")
    assert list(stream) == []
