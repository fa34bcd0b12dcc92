"""How events of the cache are published, by vLLM's names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from vtcore.errors import ArgumentError, nearest

LAST_PORT = 65535
PUBLISHERS = ("zmq", "null")


@dataclass(frozen=True)
class KVEventsConfig:
    """`endpoint`: bound where it names no single host ("*", "::", ipc, inproc), else connected to. `replay_endpoint`: where lost messages
    are asked for, of the last `buffer_steps`. `hwm`: messages that ZeroMQ holds for a subscriber; `max_queue_size`: those that wait for
    ZeroMQ."""

    enable_kv_cache_events: bool = False
    publisher: str = "zmq"
    endpoint: str = "tcp://*:5557"
    replay_endpoint: str | None = None
    buffer_steps: int = 10_000
    hwm: int = 100_000
    max_queue_size: int = 100_000
    topic: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.enable_kv_cache_events, bool):
            raise ArgumentError(f"enable_kv_cache_events is {self.enable_kv_cache_events!r:.80}; it must be true or false")
        if self.publisher not in PUBLISHERS:
            hint = nearest(self.publisher, PUBLISHERS)
            raise ArgumentError(f"publisher is {self.publisher!r:.80}{hint}; it must be one of {', '.join(PUBLISHERS)}")
        for name in ("endpoint", "replay_endpoint", "topic"):
            value = getattr(self, name)
            if not isinstance(value, str) and not (value is None and name == "replay_endpoint"):
                raise ArgumentError(f"{name} is {value!r:.80}; it must be a text")
            if value is not None and not _can_be_sent(value):
                raise ArgumentError(f"{name} is {value!a:.80}; it must be a text that UTF-8 can spell, and a port at most {LAST_PORT}")
        if self.endpoint == self.replay_endpoint and not self.endpoint.endswith((":*", ":0")):  # those stand for any port that is free
            raise ArgumentError(f"replay_endpoint is {self.replay_endpoint!r:.80}, as endpoint is; give each an address of its own")
        for name in ("buffer_steps", "hwm", "max_queue_size"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1 << 30:
                raise ArgumentError(f"{name} is {value!r:.80}; it must be an integer from 1 to {1 << 30}")


def _can_be_sent(text: str) -> bool:
    port = re.fullmatch(r"tcp://.*:(\d{1,20})", text)  # ZeroMQ takes a larger one for what is left of it in 16 bits
    return not any("\ud800" <= c <= "\udfff" for c in text) and (port is None or int(port[1]) <= LAST_PORT)


def events_config(given: Mapping[str, Any] | None) -> KVEventsConfig | None:
    """What `kv_events_config` says; None where nothing is published. ArgumentError for what it doesn't know, or what has no effect."""
    if given is None:
        return None
    known = {f.name for f in fields(KVEventsConfig)}
    if not isinstance(given, Mapping) or not set(given) <= known:
        raise ArgumentError(f"kv_events_config is {given!r:.200}; it must be a mapping with some of {', '.join(sorted(known))}")
    config = KVEventsConfig(**given)
    if config.enable_kv_cache_events and config.publisher != "null":
        _check_replay(given)
        return config
    if config.enable_kv_cache_events or set(given) - {"enable_kv_cache_events", "publisher"}:
        reason = "publisher is 'null'" if config.enable_kv_cache_events else "enable_kv_cache_events is not true"
        raise ArgumentError(f"kv_events_config has no effect: {reason}")
    return None


def _check_replay(given: Mapping[str, Any]) -> None:
    if "buffer_steps" in given and given.get("replay_endpoint") is None:
        raise ArgumentError("kv_events_config: buffer_steps has no effect without a replay_endpoint")
