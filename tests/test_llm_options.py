"""LLM: what a model, a tokenizer and options may be; each option has an effect, or is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.checkpoints import random_llama
from tests.scripted import script
from tests.talking import GREEDY, SAYS
from tests.tiny import EOS
from vtcore.errors import (
    ArgumentError,
    ConfigError,
    DeclinedError,
    ModelNotFoundError,
    OutOfMemoryError,
    PromptError,
    TokenizerError,
    VtcoreError,
)
from vtcore.kvcache.cache import Paged, State
from vtcore.llm import LLM
from vtcore.memory import HOST
from vtcore.options import Options
from vtcore.sampling_params import SamplingParams


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
        ({"max_num_seqs": 2049}, ArgumentError, "at least max_num_seqs"),
        ({"strict": 1}, ArgumentError, "strict is 1"),
        ({"async_scheduling": True, "kv_offloading_size": 1}, ArgumentError, "async_scheduling has no effect with kv_offloading_size"),
        ({"async_scheduling": True, "kv_offloading_dir": "pages"}, ArgumentError, "async_scheduling has no effect with"),
        ({"disable_cascade_attn": True, "enable_prefix_caching": False}, ArgumentError, "no effect without prefix caching: no two"),
        ({"disable_cascade_attn": True, "max_num_seqs": 1}, ArgumentError, "no effect with max_num_seqs 1: no two requests"),
        ({"scheduling_policy": ["lpm"]}, ArgumentError, "scheduling_policy is .*; it must be one of fcfs"),
        ({"kv_cache_dtype": ["fp8"]}, ArgumentError, "kv_cache_dtype is .*; choose one of auto"),
        ({"kv_offloading_size": 1, "kv_offloading_policy": ["lru"]}, ArgumentError, "kv_offloading_policy is .*; it must be one of"),
        ({"memory_limit": "lots"}, ArgumentError, "memory_limit is 'lots'"),
        ({"memory_limit": 1000}, OutOfMemoryError, "No max_model_len is small enough"),
    ],
)
def test_an_option_that_can_have_no_effect_is_refused(talking, options, error, words):
    with pytest.raises(error, match=words):
        talking(**options)


def test_cascade_attention_is_for_keys_and_values_of_heads():
    options = Options(disable_cascade_attn=True)
    options.suits([State({"conv": (4,)}), Paged({"k": (2, 4), "v": (2, 4)}, heads=True)])
    for specs in ([State({"conv": (4,)})], [Paged({"latent": (8,)})]):
        with pytest.raises(ArgumentError, match="disable_cascade_attn has no effect: no layer of this model keeps keys and values"):
            options.suits(specs)


def test_too_much_is_refused_before_it_is_allocated(tmp_path):
    path, made = random_llama(tmp_path, max_position_embeddings=1 << 20), HOST.made
    with pytest.raises(OutOfMemoryError, match=r"256\.0 MiB KV cache in float32 .* largest max_model_len that fits is"):
        LLM(path, providers="reference", memory_limit="200MiB")
    assert HOST.made - made < 1 << 20


def test_an_unknown_option_is_an_error(talking):
    with pytest.raises(ArgumentError, match=r"tensor_parallel_size is no option of LLM; .* there are .*scheduling_policy"):
        talking(tensor_parallel_size=2)


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


def test_options_have_their_effects(talking):
    llm = talking(max_model_len=16, max_num_seqs=2, max_num_batched_tokens=4, block_size=4, memory_limit="1GiB")
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


def test_closed_is_closed(talking):
    llm = talking()
    stream = llm.stream("ab", GREEDY)
    next(stream)
    llm.close()
    llm.close()
    assert llm.engine.idle
    with pytest.raises(VtcoreError, match="closed"):
        llm.generate("ab")
    with pytest.raises(VtcoreError, match="closed before the request ended"):  # what is cut off doesn't look whole
        next(stream)
