"""Pages as files named by their keys: the directory is the index, which several processes, at once or one after the other, share."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from vtcore.errors import ArgumentError
from vtcore.kvcache.offload.directory import Directory
from vtcore.kvcache.offload.identity import digest
from vtcore.kvcache.offload.page_file import DamagedPageError, read_page, write_page
from vtcore.kvcache.offload.tier import Address, Saved, TierStats

FAULTS = 8  # that are remembered in words
FRESH = 1.0  # seconds for which a listing is believed


class DiskTier:
    """At most `capacity` bytes of files under `root`, whoever wrote them. Pages of one `identity` lie in a folder of its own: whatever
    their bits depend on is in it, so that no other model, build or layout meets them. `sizes`: bytes of a page by cache group.

    A page of several keys has several names: hard links, where the file system has them."""

    name, lasting = "disk", True

    def __init__(self, root: Path, capacity: int, identity: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        self.identity, self.sizes = digest(identity), sizes
        self.folder = root / self.identity[:32]
        self.files = Directory(root, capacity)
        self.queries = self.hits = 0
        self._groups = {group: i for i, group in enumerate(sizes)}
        self._stored = self._stored_bytes = self._loaded_bytes = self._damaged = 0
        self._faults, self._writes = deque[str](maxlen=FAULTS), True
        self._names = set[str]()
        self._listed = 0.0
        self._claim(identity)
        self._list()

    def has(self, address: Address) -> bool:
        if time.monotonic() - self._listed > FRESH:
            self._list_again()
        return self._name(address) in self._names

    def read(self, address: Address) -> Saved | None:
        path = self.folder / self._name(address)
        try:
            page = read_page(path, self.identity, address, self.sizes[address.group])
            os.utime(path)  # the one unused for longest goes first
        except FileNotFoundError:  # another process took it away
            self._names.discard(path.name)
            return None
        except (DamagedPageError, OSError) as fault:
            self._damaged += 1
            self._remember(f"{path}: {fault}; it is removed, and computed anew", warn=True)
            with suppress(OSError):
                path.unlink()
            self._names.discard(path.name)
            return None
        self._loaded_bytes += page.data.nbytes
        return page

    def holds(self, address: Address) -> bool:
        path = self.folder / self._name(address)
        if path.name not in self._names:
            return False
        try:
            os.utime(path)
        except OSError:
            self._names.discard(path.name)
        return path.name in self._names

    def write(self, page: Saved) -> list[Saved]:
        if self.holds(page.address):
            return []
        if page.data.nbytes > self.files.capacity:
            return [page]
        path = self.folder / self._name(page.address)
        try:
            self.files.grew(write_page(path, self.identity, page))
        except OSError as fault:
            self._remember(f"{path} can't be written: {fault}", warn=self._writes)
            self._writes = False  # nor can the next ones, most likely: one warning tells it
            return [page]
        self._writes = True
        self._names.add(path.name)
        self._stored, self._stored_bytes = self._stored + 1, self._stored_bytes + page.data.nbytes
        for key in page.keys[:-1]:
            self._link(path, Address(page.group, key))
        return []

    def held(self) -> list[Saved]:
        return []  # nothing is lost with the process

    def close(self) -> None:
        self.files.shrink()

    def clear(self) -> None:
        for name in self.files.names(self.folder):
            with suppress(OSError):
                (self.folder / name).unlink()
        self._list()

    def stats(self) -> TierStats:
        done = (self.queries, self.hits, self._stored, self._stored_bytes, self._loaded_bytes, self.files.evictions, self._damaged)
        return TierStats(self.files.capacity, self.files.nbytes, len(self._names), *done, tuple(self._faults))

    def _claim(self, identity: Mapping[str, Any]) -> None:
        """Make the folder, or check that it is of this identity in every word."""
        about, text = self.folder / "identity.json", json.dumps(identity, indent=1, sort_keys=True)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # whose pages these are may be read out of them
            if not about.exists():
                beside = about.with_name(f"{about.name}.{os.getpid()}.part")
                beside.write_text(text, encoding="utf-8")
                beside.replace(about)
            there = about.read_text(encoding="utf-8", errors="replace")
        except OSError as e:
            raise ArgumentError(f"kv_offloading_dir: {self.folder} can't be used: {e}") from e
        if there != text:
            raise ArgumentError(f"kv_offloading_dir: {about} is not what this engine would write; remove {self.folder}, or name another")

    def _list(self) -> None:
        self._changed = _changed(self.folder)
        self._names, self._listed = set(self.files.names(self.folder)), time.monotonic()

    def _list_again(self) -> None:
        """Others may have written, or removed."""
        if _changed(self.folder) == self._changed:
            self._listed = time.monotonic()
        else:
            self._list()

    def _name(self, address: Address) -> str:
        return f"{self._groups[address.group]}-{address.key.hex()}"

    def _link(self, path: Path, alias: Address) -> None:
        with suppress(OSError):  # there already, or a file system without links: then that key finds nothing
            (self.folder / self._name(alias)).hardlink_to(path)
            self._names.add(self._name(alias))

    def _remember(self, fault: str, *, warn: bool) -> None:
        self._faults.append(fault)
        if warn:
            warnings.warn(f"kv_offloading_dir: {fault}", stacklevel=3)


def _changed(folder: Path) -> int:
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0
