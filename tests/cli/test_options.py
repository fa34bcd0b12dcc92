import argparse
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtcore.cli import options, session
from vtcore.errors import ArgumentError
from vtcore.options import SERVING


def parse(*arguments):
    parser = argparse.ArgumentParser()
    options.engine(parser)
    options.sampling(parser, 16)
    return parser.parse_args(arguments)


def test_what_was_not_given_is_left_to_the_engine():
    assert options.engine_arguments(parse()) == {"numerics": "exact", "strict": False, "capture": True}


def test_every_engine_option_reaches_the_engine():
    given = ["--numerics", "fast", "--providers", "portable", "--strict", "--dtype", "bfloat16", "--threads", "2", "--no-capture"]
    wanted = {"numerics": "fast", "providers": "portable", "strict": True, "dtype": "bfloat16", "threads": 2, "capture": False}
    args = parse(*given, "--max-model-len", "100", "--memory-limit", "4G")
    assert options.engine_arguments(args) == {**wanted, "max_model_len": 100, "memory_limit": "4G"}


def test_every_option_of_the_cache_and_the_scheduler_reaches_the_engine():
    given, wanted = (
        ["--no-enable-prefix-caching", "--disable-cascade-attn", "--async-scheduling", "--calculate-kv-scales"],
        {"async_scheduling": True},
    )
    wanted |= {"enable_prefix_caching": False, "disable_cascade_attn": True}
    for i, name in enumerate((*options.NUMBERS, "prefix_caching_hash_algo", "scheduling_policy", "kv_cache_dtype")):
        given += ["--" + name.replace("_", "-"), str(i + 1)]
        wanted[name] = i + 1 if name in options.NUMBERS else str(i + 1)
    for name in ("size", "policy", "dir", "dir_size"):
        given += [f"--kv-offloading-{name.replace('_', '-')}", name]
        wanted[f"kv_offloading_{name}"] = name
    args = parse(*given, "--priority-preemption-threshold", "0", "--kv-events-config", '{"topic": "x"}')
    wanted |= {"kv_events_config": {"topic": "x"}, "calculate_kv_scales": True}
    wanted |= {"priority_preemption_threshold": 0, "numerics": "exact", "strict": False, "capture": True}
    assert options.engine_arguments(args) == wanted
    assert {*SERVING, "max_num_seqs", "max_num_batched_tokens", "block_size"} <= wanted.keys()


@pytest.mark.parametrize("name", ["enable_prefix_caching", "disable_cascade_attn", "async_scheduling", "calculate_kv_scales"])
def test_what_is_on_or_off_is_said_either_way(name):
    option = name.replace("_", "-")
    for words, value in (([f"--{option}"], True), ([f"--no-{option}"], False)):
        assert options.engine_arguments(parse(*words))[name] is value
    assert name not in options.engine_arguments(parse())


@pytest.mark.parametrize("name", options.ORDERS)
def test_what_orders_requests_is_refused_where_there_is_one_at_a_time(name):
    option = "--" + name.replace("_", "-")
    with pytest.raises(ArgumentError, match=f"{option} has no effect here"):
        options.one_at_a_time(parse(*([option] if name == "disable_cascade_attn" else [option, "1"])))
    options.one_at_a_time(parse("--max-num-seqs", "1", "--block-size", "16"))


@given(st.text(max_size=12))
def test_no_text_does_worse_than_be_refused(text):
    for read in (options.positive, options.whole, options.number):
        with contextlib.suppress(argparse.ArgumentTypeError):
            assert isinstance(read(text), (int, float))


@pytest.mark.parametrize("text", ["", "[]", "3", "{", '{"a": 1'])
def test_a_mapping_is_a_json_object(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is not a JSON object"):
        options.mapping(text)


def test_sampling_reaches_the_parameters():
    params = session.sampling(parse("--temperature", "0.7", "--top-p", "0.9", "--top-k", "5", "--seed", "3", "--max-tokens", "9"))
    assert (params.temperature, params.top_p, params.top_k, params.seed, params.max_tokens) == (0.7, 0.9, 5, 3, 9)
    assert session.sampling(parse()).greedy


@pytest.mark.parametrize("option", [["--seed", "1"], ["--top-k", "5"], ["--top-p", "0.9"]])
def test_an_option_that_would_do_nothing_is_refused(option):
    with pytest.raises(ArgumentError, match=f"{option[0]} does nothing at temperature 0"):
        session.sampling(parse(*option))


def test_a_parameter_out_of_range_is_named():
    with pytest.raises(ArgumentError, match=r"temperature is -1\.0"):
        session.sampling(parse("--temperature", "-1"))
