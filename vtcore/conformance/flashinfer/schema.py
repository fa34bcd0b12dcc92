"""The rules that FlashInfer Trace's own validator has for definitions, workloads and traces, as checks of plain JSON."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from typing import Any

from vtcore.errors import ArgumentError

Json = Mapping[str, Any]
DTYPES = (
    "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1", "int64", "int32", "int16", "int8", "bool",
)  # fmt: skip
STATUSES = ("PASSED", "INCORRECT_SHAPE", "INCORRECT_NUMERICAL", "INCORRECT_DTYPE", "RUNTIME_ERROR", "COMPILE_ERROR", "TIMEOUT")
MEASURED = {"PASSED": (True, True), "INCORRECT_NUMERICAL": (True, False)}  # status -> whether correctness and performance are there


def check_definition(data: Any, where: str) -> Json:
    """A definition as it is. Raises ArgumentError, naming `where` and the rule, for anything else."""
    try:
        return _definition(data)
    except (KeyError, TypeError, ValueError, AttributeError, SyntaxError, RecursionError, MemoryError) as error:
        raise ArgumentError(f"{where} is no FlashInfer definition: {_words(error)}") from error


def check_trace(data: Any, where: str) -> Json:
    """A workload, or the trace of a solution. Raises ArgumentError for anything else."""
    try:
        _trace(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArgumentError(f"{where} is no FlashInfer workload or trace: {_words(error)}") from error
    return dict(data)


def _words(error: Exception) -> str:
    return f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)


def _definition(data: Json) -> Json:
    for name in ("name", "op_type", "reference"):
        _text(data, name)
    axes = {name: _axis(name, axis) for name, axis in data["axes"].items()}
    for name, spec in (*data["inputs"].items(), *data["outputs"].items()):
        _tensor(name, spec, axes)
    if both := set(data["inputs"]) & set(data["outputs"]):
        raise ValueError(f"{', '.join(sorted(both))} is an input and an output")
    if not any(isinstance(node, ast.FunctionDef) and node.name == "run" for node in ast.parse(data["reference"]).body):
        raise ValueError("its reference defines no function `run`")
    for constraint in data.get("constraints") or ():
        ast.parse(constraint, mode="eval")
    return data


def _axis(name: str, axis: Json) -> int | None:
    """A constant axis's size, or None."""
    if axis["type"] == "var":
        return None
    if axis["type"] != "const" or type(axis["value"]) is not int or axis["value"] < 0:
        raise ValueError(f"axis {name!r} is {dict(axis)!r:.60}; it must be var, or const with a value from 0")
    return int(axis["value"])


def _tensor(name: str, spec: Json, axes: Mapping[str, Any]) -> None:
    if spec["dtype"] not in DTYPES:
        raise ValueError(f"dtype of {name!r} is {spec['dtype']!r:.40}; it must be one of {', '.join(DTYPES)}")
    if spec["shape"] is not None and (unknown := [a for a in spec["shape"] if a not in axes]):
        raise ValueError(f"{name!r} has the axis {unknown[0]!r:.40}, which `axes` doesn't define")


def _trace(data: Json) -> None:
    _text(data, "definition")
    workload = data["workload"]
    _text(workload, "uuid")
    if wrong := [n for n, v in workload["axes"].items() if type(v) is not int or v < 0]:
        raise ValueError(f"axis {wrong[0]!r} is {workload['axes'][wrong[0]]!r:.40}; it must be a whole number from 0")
    for name, spec in workload["inputs"].items():
        _input(name, spec)
    evaluation = data.get("evaluation")
    if (data.get("solution") is None) != (evaluation is None):
        raise ValueError("a trace has a solution and an evaluation, a workload neither")
    if evaluation is not None:
        _evaluation(evaluation)


def _input(name: str, spec: Json) -> None:
    kind = spec["type"]
    if kind == "safetensors":
        _text(spec, "path")
        _text(spec, "tensor_key")
    elif kind == "scalar":
        if not isinstance(spec["value"], (bool, int, float)):
            raise ValueError(f"{name!r} is {spec['value']!r:.40}; a scalar is a number or a boolean")
    elif kind != "random":
        raise ValueError(f"{name!r} is {kind!r:.40}; it must be random, scalar or safetensors")


def _evaluation(data: Json) -> None:
    if data["status"] not in STATUSES:
        raise ValueError(f"status is {data['status']!r:.40}; it must be one of {', '.join(STATUSES)}")
    _text(data, "timestamp")
    _text(data["environment"], "hardware")
    there = tuple(data.get(name) is not None for name in ("correctness", "performance"))
    if there != MEASURED.get(data["status"], (False, False)):
        raise ValueError(f"correctness and performance don't belong to the status {data['status']}, or are missing")
    for name, value in {**(data.get("correctness") or {}), **(data.get("performance") or {})}.items():
        if name != "extra" and not (float(value) >= 0 or math.isnan(float(value))):
            raise ValueError(f"{name} is {value!r:.40}; it must be 0 or more")


def _text(data: Json, name: str) -> None:
    if not isinstance(data[name], str) or not data[name]:
        raise ValueError(f"{name} is {data[name]!r:.40}; it must be text")
