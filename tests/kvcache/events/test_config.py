"""The options of the events, by vLLM's names."""

import pytest

from vtcore.errors import ArgumentError
from vtcore.kvcache.events.config import KVEventsConfig, events_config


def test_nothing_is_published_unless_it_is_asked_for():
    assert events_config(None) is None
    assert events_config({}) is None
    assert events_config({"enable_kv_cache_events": False, "publisher": "null"}) is None


def test_vllm_s_defaults():
    config = events_config({"enable_kv_cache_events": True})
    assert config == KVEventsConfig(True, "zmq", "tcp://*:5557", None, 10_000, 100_000, 100_000, "")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"topic": "x"}, "has no effect: enable_kv_cache_events is not true"),
        ({"enable_kv_cache_events": True, "publisher": "null"}, "has no effect: publisher is 'null'"),
        ({"enable_kv_cache_events": True, "buffer_steps": 5}, "buffer_steps has no effect without a replay_endpoint"),
        ({"enable_kv_cache_events": True, "publisher": "kafka"}, "publisher is 'kafka'; it must be one of zmq, null"),
        ({"enable_kv_cache_events": True, "hwm": 0}, "hwm is 0"),
        ({"enable_kv_cache_events": True, "max_queue_size": True}, "max_queue_size is True"),
        ({"enable_kv_cache_events": True, "topic": 3}, "topic is 3"),
        ({"enable_kv_cache_events": True, "endpoint": None}, "endpoint is None"),
        ({"enable_kv_cache_events": True, "endpoint": "tcp://*:70000"}, "endpoint is .*; .* and a port at most 65535"),
        ({"enable_kv_cache_events": True, "topic": "half\ud83d"}, "topic is .*; it must be a text that UTF-8 can spell"),
        ({"enable_kv_cache_events": True, "replay_endpoint": "tcp://*:5557"}, "as endpoint is; give each an address of its own"),
        ({"enable_kv_cache_events": "yes"}, "enable_kv_cache_events is 'yes'"),
        ({"enabled": True}, "must be a mapping with some of buffer_steps, enable_kv_cache_events"),
        ([], "must be a mapping"),
    ],
)
def test_what_is_wrong_or_has_no_effect_is_refused(given, message):
    with pytest.raises(ArgumentError, match=message):
        events_config(given)
