"""A directory of FlashInfer Trace as cases. What it says is checked, tensors are read from below it alone, and no code of it is run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any
from zlib import crc32

import ml_dtypes
import numpy as np

from vtcore.bench.op_work import flops
from vtcore.conformance.case import Case
from vtcore.conformance.flashinfer.meaning import Understood, understand
from vtcore.conformance.flashinfer.schema import Json, check_definition, check_trace
from vtcore.errors import ArgumentError, CheckpointError, OpError
from vtcore.formats.json_file import LARGEST, parse_json, read_object
from vtcore.formats.safetensors import read_file

Array = np.ndarray[Any, Any]
MOST_BYTES = 64 << 20  # of a case's arrays
MOST_FLOPS = 4 << 30  # of a case: some seconds of the definition
NUMPY = {n: np.dtype(n) for n in ("float32", "float16", "int64", "int32", "int16", "int8", "bool")}
NUMPY["bfloat16"] = np.dtype(ml_dtypes.bfloat16)
NAME = re.compile(r"\w[\w.-]{0,199}", re.ASCII)
ROWS = 4  # of the workload that is made up where none is given
PLAIN = ("rms_norm", "add_rms_norm", "linear", "embedding")  # ops whose workload can be made up


class Skipped(Exception):
    """A workload that is no case here, and why."""


class TraceSet:
    """A directory. `definitions` holds those that are well formed, by name; `problems` says what is wrong with the others."""

    def __init__(self, root: Path) -> None:
        if not (root / "definitions").is_dir():
            raise ArgumentError(f"{root} is no FlashInfer Trace directory: it has no folder `definitions`")
        self.root, self.definitions, self.problems = root, dict[str, Json](), list[str]()
        self.skipped = Counter[str]()  # reason -> workloads
        for path in sorted((root / "definitions").rglob("*.json")):
            try:
                definition = check_definition(read_object(path), str(path))
                if not NAME.fullmatch(definition["name"]):
                    raise ArgumentError(
                        f"{path}: name is {definition['name']!r:.60}; it becomes the name of files, so letters, digits and _.- only"
                    )
                self.definitions[definition["name"]] = definition
            except (ArgumentError, CheckpointError) as error:
                self.problems.append(str(error))

    def workloads(self, definition: Json) -> Iterator[Json]:
        """Those of a definition, in the order of its file; of a plain one without any, one of a few rows."""
        found = sorted((self.root / "workloads").rglob(f"{definition['name']}.jsonl"))
        for path in found:
            yield from self._lines(path)
        understood = understand(definition)
        if not found and isinstance(understood, Understood) and understood.op.name in PLAIN:
            axes = {n: ROWS for n, axis in definition["axes"].items() if axis["type"] == "var"}
            yield {"axes": axes, "inputs": {n: {"type": "random"} for n in definition["inputs"]}, "uuid": f"{ROWS} rows"}

    def _lines(self, path: Path) -> Iterator[Json]:
        if path.stat().st_size > LARGEST:
            raise ArgumentError(f"{path} has {path.stat().st_size} bytes; at most {LARGEST} are read")
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            where = f"{path}, line {number}"
            try:
                yield check_trace(parse_json(line, where, CheckpointError), where)["workload"]
            except (ArgumentError, CheckpointError) as error:
                self.problems.append(str(error))

    def cases(self, most: int) -> Iterator[tuple[str, Case]]:
        """Up to `most` cases of each definition that is understood, with the definition's name."""
        number = 0
        for name, definition in self.definitions.items():
            understood = understand(definition)
            if not isinstance(understood, Understood):
                continue
            for case in islice(self._cases(definition, understood), most):
                yield name, Case(case.op, case.call, 0, number, "saved")
                number += 1

    def _cases(self, definition: Json, understood: Understood) -> Iterator[Case]:
        for workload in self.workloads(definition):
            try:
                call = understood.op.bind(**understood.build(definition, self._inputs(definition, workload)))
                understood.op.validate(call)
                if (count := flops(understood.op, call)) and count > MOST_FLOPS:
                    raise Skipped(f"over {MOST_FLOPS / 1e9:.0f} GFLOP, which takes the definition too long")
                yield Case(understood.op, call, 0, 0, "saved")
            except Skipped as why:
                self.skipped[str(why)] += 1
            except OpError as error:
                self.skipped[f"{understood.op.name} doesn't take it: {error}"] += 1
            except (CheckpointError, ValueError, TypeError, KeyError, IndexError) as error:
                self.problems.append(f"{definition['name']}, workload {workload['uuid']}: {type(error).__name__}: {error}")

    def _inputs(self, definition: Json, workload: Json) -> dict[str, Any]:
        axes = {n: axis["value"] if axis["type"] == "const" else workload["axes"][n] for n, axis in definition["axes"].items()}
        shapes = {n: None if s["shape"] is None else tuple(axes[a] for a in s["shape"]) for n, s in definition["inputs"].items()}
        if wrong := [s["dtype"] for s in definition["inputs"].values() if s["dtype"] not in NUMPY]:
            raise Skipped(f"{wrong[0]} inputs, which no op here takes")
        sizes = [prod(s) * NUMPY[definition["inputs"][n]["dtype"]].itemsize for n, s in shapes.items() if s is not None]
        if sum(sizes) > MOST_BYTES:
            raise Skipped(f"over {MOST_BYTES >> 20} MiB of inputs")
        seed = crc32(workload["uuid"].encode())
        return {n: self._input(n, definition, workload["inputs"][n], s, seed, axes) for n, s in shapes.items()}

    def _input(self, name: str, definition: Json, said: Json, shape: tuple[int, ...] | None, seed: int, axes: dict[str, int]) -> Any:
        dtype = NUMPY[definition["inputs"][name]["dtype"]]
        if said["type"] == "scalar":
            return said["value"]
        if said["type"] == "random":
            return _random(name, definition, shape, dtype, np.random.default_rng([seed, crc32(name.encode())]), axes)
        array = self._stored(said)
        if array.shape != shape or array.dtype != dtype:
            raise ValueError(
                f"{name} is {array.dtype}{list(array.shape)} in {said['path']}; the definition says {dtype}{list(shape or ())}"
            )
        return array

    def _stored(self, said: Json) -> Array:
        path = (self.root / said["path"]).resolve()
        if not path.is_relative_to(self.root.resolve()):
            raise ValueError(f"path {said['path']!r} leads out of {self.root}")
        tensors = read_file(path)
        if said["tensor_key"] not in tensors:
            raise ValueError(f"{said['path']} has no tensor {said['tensor_key']!r}")
        loaded = tensors[said["tensor_key"]].load()
        assert isinstance(loaded, np.ndarray), "safetensors hold no blocks"
        return loaded


def _random(name: str, definition: Json, shape: tuple[int, ...] | None, dtype: np.dtype[Any], rng: Any, axes: dict[str, int]) -> Any:
    """As the benchmark draws them: floats of a normal distribution."""
    if shape is None:
        raise Skipped(f"{name} is a random number, which says nothing")
    if dtype.kind == "f" or dtype.name == "bfloat16":
        return rng.standard_normal(shape).astype(np.float32).astype(dtype)
    if name == "input_ids":
        return rng.integers(0, axes["vocab_size"], shape).astype(dtype)
    raise Skipped(f"{name} is integers that hang together, and random")
