"""Events as a consumer of vLLM's reads them: the structures below follow the published format, and know nothing of this engine."""

from __future__ import annotations

import sys
import time
from typing import Any

import msgspec
import pytest
import zmq

from tests.patience import SECONDS
from vtcore.errors import ArgumentError
from vtcore.kvcache.events.config import KVEventsConfig
from vtcore.kvcache.events.publisher import Publisher

LOCAL = "tcp://127.0.0.1:*"


class Event(msgspec.Struct, tag=True):
    pass


class BlockStored(Event):
    block_hashes: list[int | bytes]
    parent_block_hash: int | bytes | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str | None
    lora_name: str | None
    extra_keys: list[Any] | None = None
    group_idx: int | None = None


class BlockRemoved(Event):
    block_hashes: list[int | bytes]
    medium: str | None
    group_idx: int | None = None


class AllBlocksCleared(Event):
    pass


class Batch(msgspec.Struct, array_like=True):
    ts: float
    events: list[BlockStored | BlockRemoved | AllBlocksCleared]
    data_parallel_rank: int | None = None


class Subscriber:
    """Reads messages as they come."""

    def __init__(self, endpoint: str, topic: str = "") -> None:
        self.context = zmq.Context()
        self.sub = self.context.socket(zmq.SUB)
        self.sub.setsockopt_string(zmq.SUBSCRIBE, topic)
        self.sub.connect(endpoint)

    def next(self, seconds: float = SECONDS) -> tuple[bytes, int, Batch]:
        assert self.sub.poll(seconds * 1000), "nothing came"
        topic, number, payload = self.sub.recv_multipart()
        return topic, int.from_bytes(number, "big"), msgspec.msgpack.decode(payload, type=Batch)

    def __enter__(self) -> Subscriber:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.destroy(linger=0)


def replayed(replay: str, start: int) -> list[tuple[int, Batch]]:
    """All from a number on; as a DEALER, since several answers come to one question."""
    got = []
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger = 0
        socket.connect(replay)
        socket.send_multipart((b"", start.to_bytes(8, "big")))
        while True:
            assert socket.poll(1000 * SECONDS), "no answer"
            empty, number, payload = socket.recv_multipart()
            assert empty == b""
            if int.from_bytes(number, "big", signed=True) == -1:
                assert payload == b""
                return got
            got.append((int.from_bytes(number, "big"), msgspec.msgpack.decode(payload, type=Batch)))


def publisher(**options) -> Publisher:
    return Publisher(KVEventsConfig(True, **{"endpoint": LOCAL, **options}))


def stored(i: int) -> dict[str, Any]:
    fields = {"parent_block_hash": None, "token_ids": [i], "block_size": 1, "lora_id": None, "medium": "GPU", "lora_name": None}
    return {"type": "BlockStored", "block_hashes": [(1 << 64) - 1 - i], **fields}


def joined(p: Publisher, s: Subscriber) -> int:
    """Publish until the subscriber has heard the last message: its number. Some may be lost, since few fit where nobody sends them yet."""
    number = -1
    while number + 1 < p._next or number < 0:
        p.publish([{"type": "AllBlocksCleared"}])
        while number + 1 < p._next and s.sub.poll(50):
            number = s.next()[1]
    return number


@pytest.mark.feature("KV events (block create / evict publish)")
def test_a_consumer_of_vllm_s_reads_it():
    p = publisher(topic="kv@model")
    with Subscriber(p.endpoint, topic="kv@") as s:
        first, before = joined(p, s), time.time()
        p.publish([stored(1), {"type": "BlockRemoved", "block_hashes": [7], "medium": "GPU", "group_idx": 1}])
        topic, number, batch = s.next()
        assert (topic, number) == (b"kv@model", first + 1)
        assert before - 1 < batch.ts < time.time() + 1
        assert batch.data_parallel_rank is None
        assert batch.events[0] == BlockStored([(1 << 64) - 2], None, [1], 1, None, "GPU", None)
        assert batch.events[1] == BlockRemoved([7], "GPU", 1)
        p.close()
        p.close()


@pytest.mark.feature("KV events (block create / evict publish)")
def test_what_was_missed_is_asked_for_again():
    p = publisher(replay_endpoint=LOCAL, buffer_steps=5)
    for i in range(9):
        p.publish([stored(i)])
    with Subscriber(p.endpoint) as s:
        last = joined(p, s)
        got = replayed(p.replay_endpoint, last - 2)
        assert [number for number, _ in got] == [last - 2, last - 1, last]
        assert [n for n, _ in replayed(p.replay_endpoint, 0)] == list(range(last - 4, last + 1))
        assert replayed(p.replay_endpoint, last + 1) == []
    p.close()


def test_a_question_that_is_none_is_passed_over():
    p = publisher(replay_endpoint=LOCAL)
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger = 0
        socket.connect(p.replay_endpoint)
        for frames in ((b"",), (b"x", b"12345678"), (b"", b"123"), (b"", b"", b"", b""), (b"\xff" * 9, b"", b"")):
            socket.send_multipart(frames)
        p.publish([stored(1)])
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline and not replayed(p.replay_endpoint, 0):
            pass
        assert [n for n, _ in replayed(p.replay_endpoint, 0)] == [0]
        assert not socket.poll(0)
    p.close()


def test_nobody_who_doesn_t_read_holds_anything_up():
    p = publisher(max_queue_size=3, hwm=2)
    with Subscriber(p.endpoint) as s:
        s.sub.rcvhwm = 1
        joined(p, s)
        for i in range(20_000):
            p.publish([stored(i)])
        flooded, numbers = p._next, [s.next()[1]]
        while numbers[-1] < flooded:
            p.publish([stored(0)])
            numbers += [s.next()[1]] if s.sub.poll(100) else []
        assert numbers == sorted(set(numbers))  # the gap shows in them
        assert p.dropped > 0
        assert len(numbers) < 20_000
    p.close()


def test_an_address_that_is_taken_is_refused():
    p = publisher()
    taken = p.endpoint
    for options in ({"endpoint": "tcp://*:" + taken.rsplit(":", 1)[1]}, {"replay_endpoint": taken}, {"endpoint": "nonsense"}):
        with pytest.raises(ArgumentError, match="can't be used"):
            publisher(**options)
    p.close()


@pytest.mark.parametrize("name", ["zmq", "msgspec"])
def test_a_missing_package_is_named_with_what_installs_it(monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ArgumentError, match=rf"needs the package {name}: pip install 'vtcore\[serve\]'"):
        publisher()
