"""What the server's process and the engine's say to each other: msgpack, one message a frame of a ZeroMQ pair."""

from __future__ import annotations

from typing import Any

import msgspec

from vtcore.outputs import Delta, Logprobs, Timings


class Submit(msgspec.Struct, tag=True, array_like=True):
    """To the engine: queue a request. `params` are SamplingParams by name, `options` those of Intake.take."""

    request_id: str
    prompt_token_ids: list[int]
    params: dict[str, Any]
    options: dict[str, Any]


class Abort(msgspec.Struct, tag=True, array_like=True):
    """To the engine: end a request."""

    request_id: str


class Call(msgspec.Struct, tag=True, array_like=True):
    """To the engine: a question, by the name of a method of Answers. It is answered between two steps."""

    call_id: int
    name: str


class Close(msgspec.Struct, tag=True, array_like=True):
    """To the engine: end everything, and the process."""


class Ready(msgspec.Struct, tag=True, array_like=True):
    """From the engine: it takes requests. `info` are the model's limits."""

    info: dict[str, Any]


class Accepted(msgspec.Struct, tag=True, array_like=True):
    """From the engine: a request is queued."""

    request_id: str


class Refused(msgspec.Struct, tag=True, array_like=True):
    """From the engine: a request was not queued. `kind` is the name of its exception in vtcore.errors."""

    request_id: str
    kind: str
    message: str


class Added(msgspec.Struct, tag=True, array_like=True):
    """From the engine: what a step added to all requests."""

    deltas: list[Delta]


class Ended(msgspec.Struct, tag=True, array_like=True):
    """From the engine: a request has its last delta."""

    request_id: str
    prompt_logprobs: list[Logprobs | None]  # empty unless they were asked for
    timings: Timings
    num_cached_tokens: int | None


class Failed(msgspec.Struct, tag=True, array_like=True):
    """From the engine: a request was ended by a fault."""

    request_id: str
    message: str


class Told(msgspec.Struct, tag=True, array_like=True):
    """From the engine: the answer to a Call, or what went wrong with it."""

    call_id: int
    value: Any
    fault: str | None = None


ToEngine = Submit | Abort | Call | Close
FromEngine = Ready | Accepted | Refused | Added | Ended | Failed | Told
_encoder = msgspec.msgpack.Encoder()
_to_engine: msgspec.msgpack.Decoder[ToEngine] = msgspec.msgpack.Decoder(ToEngine)
_from_engine: msgspec.msgpack.Decoder[FromEngine] = msgspec.msgpack.Decoder(FromEngine)


def pack(message: ToEngine | FromEngine) -> bytes:
    """A message as bytes."""
    return _encoder.encode(message)


def unpack_to_engine(raw: bytes) -> ToEngine:
    """A message for the engine."""
    return _to_engine.decode(raw)


def unpack_from_engine(raw: bytes) -> FromEngine:
    """A message of the engine."""
    return _from_engine.decode(raw)
