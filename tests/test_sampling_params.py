"""SamplingParams: vLLM's names, defaults and ranges, each rule checked where the object is built."""

import math
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest

from vtcore.errors import ArgumentError
from vtcore.sampling_params import SamplingParams

WRONG = [
    ({"n": 0}, "n is 0"),
    ({"n": 1.5}, "n is 1.5"),
    ({"n": 10**9}, "from 1 to 16384"),
    ({"n": True}, "n is True"),
    ({"n": 2, "temperature": 0}, "greedy"),
    ({"presence_penalty": 2.1}, "at most 2"),
    ({"presence_penalty": -2.1}, "at least -2"),
    ({"frequency_penalty": math.nan}, "finite"),
    ({"frequency_penalty": "1"}, "finite number"),
    ({"repetition_penalty": 0}, "at least 0.001 and at most 1000"),
    ({"repetition_penalty": 1e-45}, "at least 0.001"),
    ({"repetition_penalty": 1e300}, "at most 1000"),
    ({"temperature": 1e30}, "at most 1000000"),
    ({"temperature": 10**400}, "a finite number"),
    ({"logit_bias": {1: 10**400}}, "a finite number"),
    ({"repetition_penalty": math.inf}, "finite"),
    ({"temperature": -0.1}, "at least 0"),
    ({"temperature": math.nan}, "finite"),
    ({"temperature": False}, "finite number"),
    ({"top_p": 0}, "more than 0"),
    ({"top_p": 1.01}, "at most 1"),
    ({"top_k": -2}, "at least -1"),
    ({"top_k": 1.0}, "integer"),
    ({"min_p": -0.1}, "at least 0"),
    ({"min_p": 1.1}, "at most 1"),
    ({"seed": 1 << 63}, "seed"),
    ({"seed": 1.0}, "integer"),
    ({"stop": ""}, "at least one character"),
    ({"stop": ["a", 3]}, "stop holds 3"),
    ({"stop": 3}, "list of texts"),
    ({"stop": "a", "detokenize": False}, "detokenize"),
    ({"stop_token_ids": [-1]}, "stop_token_ids"),
    ({"stop_token_ids": 7}, "list of token ids"),
    ({"ignore_eos": 1}, "True or False"),
    ({"max_tokens": -1}, "at least 0"),
    ({"max_tokens": True}, "integer"),
    ({"min_tokens": 17}, "max_tokens"),
    ({"min_tokens": -1}, "at least 0"),
    ({"logprobs": -2}, "at least -1"),
    ({"logprobs": True}, "integer"),
    ({"prompt_logprobs": 0.5}, "integer"),
    ({"logit_bias": {"abc": 5}}, "'abc'"),
    ({"logit_bias": {-1: 5}}, "at least 0"),
    ({"logit_bias": {3: 1000}}, "at most 100"),
    ({"logit_bias": {3: None}}, "finite number"),
    ({"logit_bias": {3: math.nan}}, "finite number"),
    ({"logit_bias": [3]}, "map token ids"),
    ({"logit_bias": dict.fromkeys(range(1025), 1)}, "1024"),
    ({"allowed_token_ids": []}, "empty"),
    ({"allowed_token_ids": ["3"]}, "integer"),
    ({"bad_words": [""]}, "at least one character"),
    ({"bad_words": "word"}, "list of texts"),
]


@pytest.mark.parametrize(("values", "words"), WRONG, ids=[str(v) for v, _ in WRONG])
def test_every_broken_rule_is_named(values, words):
    with pytest.raises(ArgumentError, match=words):
        SamplingParams(**values)


def test_an_unknown_name_is_an_error():
    with pytest.raises(TypeError, match="tempperature"):
        SamplingParams(tempperature=1)


def test_defaults_are_those_of_vllm():
    defaults = {f.name: f.default for f in fields(SamplingParams)}
    assert defaults == {
        "n": 1, "presence_penalty": 0.0, "frequency_penalty": 0.0, "repetition_penalty": 1.0, "temperature": 1.0, "top_p": 1.0,
        "top_k": 0, "min_p": 0.0, "seed": None, "stop": None, "stop_token_ids": None, "ignore_eos": False, "max_tokens": 16,
        "min_tokens": 0, "logprobs": None, "prompt_logprobs": None, "logit_bias": None, "allowed_token_ids": None, "bad_words": None,
        "include_stop_str_in_output": False, "skip_special_tokens": True, "detokenize": True, "skip_reading_prefix_cache": None,
    }  # fmt: skip


def test_greedy_switches_off_what_only_a_draw_reads():
    params = SamplingParams(temperature=9e-6, top_p=0.5, top_k=3, min_p=0.1)
    assert params.greedy
    assert (params.temperature, params.top_p, params.top_k, params.min_p) == (0.0, 1.0, 0, 0.0)


@pytest.mark.parametrize(("given", "used"), [(1e-5, 0.01), (0.005, 0.01), (0.01, 0.01), (0.7, 0.7)])
def test_a_sampling_temperature_is_at_least_a_hundredth(given, used):
    params = SamplingParams(temperature=given)
    assert not params.greedy
    assert params.temperature == used


def test_what_means_off_or_none():
    assert SamplingParams(top_k=-1).top_k == 0
    assert SamplingParams(seed=-1).seed is None
    assert SamplingParams(top_k=1_000_000).top_k == 1_000_000
    assert SamplingParams(stop="x").stop == ("x",)
    assert SamplingParams(max_tokens=None, min_tokens=1000).max_tokens is None


def test_numpy_numbers_are_numbers():
    params = SamplingParams(temperature=np.float32(0.5), top_k=np.int64(3), logit_bias={np.int32(4): np.float64(1)})
    assert (type(params.temperature), type(params.top_k)) == (float, int)
    assert params.logit_bias == {4: 1.0}


def test_frozen():
    with pytest.raises(FrozenInstanceError):
        SamplingParams().n = 2  # type: ignore[misc]  # it is frozen: that is the test


def test_ids_are_named_with_their_parameter():
    params = SamplingParams(stop_token_ids=[1], allowed_token_ids=(2,), logit_bias={3: 1})
    assert list(params.token_ids()) == [("stop_token_ids", 1), ("allowed_token_ids", 2), ("logit_bias", 3)]
