"""What happened to the blocks of the cache since it was last told: plain data, in the form that vLLM's consumers read.

An event is a mapping whose "type" is its name; fields that have their defaults are left out. Where there are several groups of layers,
`group_idx` says of which a block is, as `kv_cache_spec_kind` says what it keeps."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from vtcore.kvcache.cache import Paged, Spec
from vtcore.kvcache.chain import Chain

Event = dict[str, Any]
POOL, HOST = "GPU", "CPU"  # vLLM's names of the places, on whatever device
WHOLE = "VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES"  # "0": hashes are told whole, as bytes; else the last 64 bits, as an integer


class EventLog:
    """Of one cache, whose keys stand for `unit` tokens each. Only what was told as stored is told as removed."""

    def __init__(self, groups: Mapping[str, Spec], unit: int) -> None:
        self.unit = unit
        self._about = {name: _about(i, spec) if len(groups) > 1 else {} for i, (name, spec) in enumerate(groups.items())}
        self._fresh: dict[str, set[bytes]] = {name: set() for name in groups}  # kept, and not told yet
        self._told: dict[str, set[bytes]] = {name: set() for name in groups}
        self._below: dict[str, set[bytes]] = {name: set() for name in groups}  # told of the host's tier
        self._events: list[Event] = []
        self._as_bytes = os.environ.get(WHOLE) == "0"

    def kept(self, group: str, key: bytes) -> None:
        """A key leads to a page."""
        self._fresh[group].add(key)

    def settled(self, chain: Chain, begin: int, end: int) -> None:
        """What was kept is of a sequence's tokens in [begin, end)."""
        for group, fresh in self._fresh.items():
            if fresh:
                for run in self._runs(chain, begin, end, fresh):
                    self._stored(group, chain, run)
                fresh.clear()

    def forgotten(self, group: str, keys: Iterable[bytes]) -> None:
        """Keys lead nowhere any more."""
        keys = list(keys)
        self._fresh[group].difference_update(keys)
        self._removed(self._told[group], group, POOL, keys)

    def saved(self, group: str, keys: Sequence[bytes]) -> None:
        """The host's tier has a page: by which keys. What its tokens are was told when it was computed."""
        if new := [key for key in keys if key not in self._below[group]]:
            self._below[group].update(new)
            self._events.append(self._block_stored(group, new, None, [], HOST))

    def dropped(self, group: str, keys: Sequence[bytes]) -> None:
        """The host's tier gave up a page."""
        self._removed(self._below[group], group, HOST, keys)

    def cleared(self) -> None:
        """Nothing is found any more."""
        for known in (self._fresh, self._told, self._below):
            for keys in known.values():
                keys.clear()
        self._events.append({"type": "AllBlocksCleared"})

    def take(self) -> list[Event]:
        """What nobody has taken yet."""
        events, self._events = self._events, []
        return events

    def _runs(self, chain: Chain, begin: int, end: int, fresh: set[bytes]) -> Iterator[list[int]]:
        """Lengths whose last units are new, each list without a gap."""
        run: list[int] = []
        for length in chain.lengths(begin, end):
            if length % self.unit or chain.key(length) not in fresh:
                continue
            if run and run[-1] + self.unit != length:
                yield run
                run = []
            run.append(length)
        if run:
            yield run

    def _stored(self, group: str, chain: Chain, run: list[int]) -> None:
        begin, keys = run[0] - self.unit, [chain.key(length) for length in run]
        event = self._block_stored(group, keys, chain.key(begin) if begin else None, chain.tokens(begin, run[-1]), POOL)
        event["lora_name"] = chain.identity.lora
        extras = [chain.identity.extras(length - self.unit, length) for length in run]
        if any(extras):
            event["extra_keys"] = [None if e is None else [_told(part) for part in e] for e in extras]
        self._told[group].update(keys)
        self._events.append(event)

    def _block_stored(self, group: str, keys: Sequence[bytes], parent: bytes | None, tokens: list[int], medium: str) -> Event:
        return {
            "type": "BlockStored",
            "block_hashes": [self._hash(key) for key in keys],
            "parent_block_hash": None if parent is None else self._hash(parent),
            "token_ids": tokens,
            "block_size": self.unit,
            "lora_id": None,
            "medium": medium,
            "lora_name": None,
            **self._about[group],
        }

    def _removed(self, known: set[bytes], group: str, medium: str, keys: Iterable[bytes]) -> None:
        if gone := [key for key in keys if key in known]:
            known.difference_update(gone)
            which = {"group_idx": self._about[group]["group_idx"]} if self._about[group] else {}
            self._events.append({"type": "BlockRemoved", "block_hashes": [self._hash(k) for k in gone], "medium": medium, **which})

    def _hash(self, key: bytes) -> int | bytes:
        return key if self._as_bytes else int.from_bytes(key[-8:], "big")


def _about(index: int, spec: Spec) -> Event:
    about = {"group_idx": index, "kv_cache_spec_kind": _kind(spec)}
    return about | {"kv_cache_spec_sliding_window": spec.window} if isinstance(spec, Paged) and spec.window else about


def _kind(spec: Spec) -> str:
    """What a group keeps, by vLLM's names."""
    if not isinstance(spec, Paged):
        return "mamba"
    if spec.of == "encoder":
        return "cross_attention"
    if spec.window:
        return "sliding_window" if spec.heads else "sliding_window_mla"
    if spec.chunk:
        return "chunked_local_attention"
    return "full_attention" if spec.heads else "mla_attention"


def _told(part: tuple[Any, ...]) -> Any:
    """What a key depends on besides tokens, as consumers take it: an adapter's name and a salt as they are, media as (digest, offset).
    What vLLM doesn't have keeps its own name before it."""
    kind, *values = part
    return {"lora": values[0], "cache_salt": values[0], "mm": tuple(values)}.get(kind, part)
