"""Whether the machine was quiet: processor time that went elsewhere while one engine was measured."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from peers.channel import Worker

STAT = Path("/proc/stat")
IDLE_FIELDS = (3, 4)  # of the counters: idle, and waiting for a disk
ENOUGH = 0.1  # of a core


class Watch:
    """Sums up over several measurements. Where the system keeps no counters, nothing is ever found."""

    def __init__(self, workers: Mapping[str, Worker]) -> None:
        self.workers = workers
        self.seconds = self.idle = self.outside = 0.0

    @contextmanager
    def measuring(self, engine: str) -> Iterator[None]:
        """Around a measurement of one of the engines."""
        before = self._counters(engine)
        yield
        wall, mine, idle, machine = (b - a for a, b in zip(before, self._counters(engine), strict=True))
        self.seconds += wall
        self.idle += idle
        self.outside += max(0.0, machine - mine - idle)

    def disturbed(self) -> str:
        """By whom, in words: engines that weren't asked, or other processes. Nothing if the machine was quiet."""
        told = []
        for used, who in ((self.idle, "idle engines"), (self.outside, "other processes")):
            if self.seconds and used / self.seconds > ENOUGH:
                told.append(f"{who} used {used / self.seconds:.2f} of a core")
        return " and ".join(told)

    def _counters(self, engine: str) -> tuple[float, float, float, float]:
        """Seconds: by the clock; of the measured engine with this process, of the idle ones, and of the whole machine."""
        used = {name: worker.cpu_seconds() for name, worker in self.workers.items()}
        mine = used.pop(engine) + time.process_time()
        return time.perf_counter(), mine, sum(used.values()), busy_seconds()


def busy_seconds(stat: Path = STAT) -> float:
    """What all processors have worked so far, with what a hypervisor took; 0 where the system doesn't say."""
    try:
        numbers = [int(n) for n in stat.read_text().splitlines()[0].split()[1:9]]
    except (OSError, ValueError, IndexError):
        return 0.0
    return sum(n for i, n in enumerate(numbers) if i not in IDLE_FIELDS) / os.sysconf("SC_CLK_TCK")
