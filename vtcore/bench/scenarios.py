"""Workloads that are made for one feature, run with it and without it in turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from vtcore.bench.cascade import cascade
from vtcore.bench.concurrent import concurrent
from vtcore.bench.lpm import lpm
from vtcore.bench.measured import Effort, Measured
from vtcore.bench.shared_prefix import shared_prefix
from vtcore.bench.speed import Load

Scenario = Callable[[Load, Effort], Iterator[Measured]]
SCENARIOS: Mapping[str, Scenario] = {"cascade": cascade, "shared-prefix": shared_prefix, "lpm": lpm, "concurrent": concurrent}
