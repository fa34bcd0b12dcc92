"""Ops as definitions, cases as workloads, results as traces of FlashInfer Trace."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vtcore.conformance.case import Case
from vtcore.conformance.flashinfer.schema import DTYPES, Json, check_definition, check_trace
from vtcore.errors import ArgumentError
from vtcore.op import Op
from vtcore.quant.blocks import Blocks
from vtcore.signature import Axes, evaluate
from vtcore.written import write as write_file

Array = np.ndarray[Any, Any]
CODE = """from vtcore.conformance.flashinfer.reference import definition


def run({parameters}):
    return definition({op!r}, {arguments})
"""
QUANTISED = "block-quantised arrays, for which the format has no dtypes"
SCALARS = {bool: "bool", int: "int32", float: "float32"}


class Inexpressible(Exception):
    """A case that the format can't hold, and why."""


@dataclass(frozen=True)
class Exported:
    """A case in the format: the definition that it belongs to, its workload, and the tensors that the workload names."""

    definition: Json
    workload: Json
    tensors: Mapping[str, Array]

    @property
    def blob(self) -> str:
        """Where the tensors lie, below the directory."""
        d = self.definition
        return f"blob/workloads/{d['op_type']}/{d['name']}/{d['name']}_{self.workload['uuid']}.safetensors"


def export(case: Case) -> Exported:
    """Raises Inexpressible for quantised arrays, unequal lists and dtypes that the format lacks."""
    form = _Form(case)
    content = json.dumps(form.body, sort_keys=True)
    name = f"vtcore_{case.op.name}_{hashlib.sha256(content.encode()).hexdigest()[:8]}"
    definition = check_definition({"name": name, **form.body}, name)
    key = hashlib.sha256(content.encode() + b"".join(a.tobytes() for a in form.tensors.values()) + json.dumps(form.numbers).encode())
    exported = Exported(definition, {"axes": form.variable, "inputs": {}, "uuid": str(uuid.UUID(bytes=key.digest()[:16]))}, form.tensors)
    stored = {n: {"type": "safetensors", "path": exported.blob, "tensor_key": n} for n in form.tensors}
    numbers = {n: {"type": "scalar", "value": v} for n, v in form.numbers.items()}
    workload = {**exported.workload, "inputs": {n: stored.get(n, numbers.get(n)) for n in definition["inputs"]}}
    check_trace({"definition": name, "workload": workload}, name)
    return Exported(definition, workload, form.tensors)


def check_vacant(root: Path) -> None:
    """Raises ArgumentError where something is there already."""
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise ArgumentError(f"{root} is there and not an empty directory")


def write(root: Path, cases: Iterable[Exported], traces: Iterable[Json] = ()) -> None:
    """A directory that FlashInfer Trace reads. Raises ArgumentError where it is there and holds something."""
    from safetensors.numpy import save_file

    check_vacant(root)
    types = dict[str, str]()
    for case in cases:
        kind, name = types[case.definition["name"]], _ = case.definition["op_type"], case.definition["name"]
        _put(root / "definitions" / kind / f"{name}.json", json.dumps(case.definition, indent=2) + "\n")
        _add(root / "workloads" / kind / f"{name}.jsonl", {"definition": name, "workload": case.workload})
        (root / case.blob).parent.mkdir(parents=True, exist_ok=True)
        save_file({n: np.array(a, order="C") for n, a in case.tensors.items()}, root / case.blob)
    for trace in traces:
        _add(root / "traces" / types[trace["definition"]] / f"{trace['definition']}.jsonl", trace)


class _Form:
    """A case taken apart: `body` is the definition without its name, `variable` the sizes of its variable axes."""

    def __init__(self, case: Case) -> None:
        self.op, self.call = case.op, case.call
        self.sizes = case.op.validate(case.call)
        self.tensors, self.numbers, self.fixed = dict[str, Array](), dict[str, Any](), dict[str, Any]()
        self.axes, self.inputs, self.constraints = dict[str, int](), dict[str, Any](), list[str]()
        for name, value in case.call.items():
            self._argument(name, value)
        bound = {axis for spec in self.inputs.values() for axis in spec["shape"] or ()}
        outputs = self._outputs()
        constant = _constant_axes(case.op, self.tensors) | (self.axes.keys() - bound)
        self.variable = {n: size for n, size in self.axes.items() if n not in constant}
        axes = {n: {"type": "const", "value": s} if n in constant else {"type": "var"} for n, s in self.axes.items()}
        self.body = self._body(axes, outputs)

    def _body(self, axes: Json, outputs: Json) -> dict[str, Any]:
        documented = inspect.cleandoc(self.op.reference.__doc__ or self.op.name).splitlines()[0]
        arguments = ", ".join([f"{n}={n}" for n in self.inputs] + [f"{n}={_literal(v)}" for n, v in self.fixed.items()])
        return {
            "op_type": self.op.reference.__module__.rpartition(".")[2],
            "description": documented,
            "tags": ["status:reference", f"vtcore:{self.op.name}"],
            "axes": axes,
            "constraints": self.constraints,
            "inputs": self.inputs,
            "outputs": outputs,
            "reference": CODE.format(op=self.op.name, parameters=", ".join(self.inputs), arguments=arguments),
        }

    def _argument(self, name: str, value: Any) -> None:
        if isinstance(value, (list, tuple)):
            value = _stacked(name, value)
        if isinstance(value, Blocks):
            raise Inexpressible(QUANTISED)
        if isinstance(value, np.ndarray):
            self.tensors[name] = value
            self.inputs[name] = {"shape": self._shape(name, value), "dtype": _dtype(name, value)}
        elif type(value) in SCALARS and math.isfinite(value):
            self.numbers[name] = value
            self.inputs[name] = {"shape": None, "dtype": SCALARS[type(value)]}
        else:
            self.fixed[name] = value

    def _shape(self, name: str, array: Array) -> list[str]:
        argument = self.op.signature.arguments[name]
        axes: Axes = ("E", *argument.axes) if argument.many and array.ndim > len(argument.axes) else argument.axes
        dots = array.ndim - (len(axes) - 1)
        prefix = f"{name}_" if argument.broadcast else ""
        names = [n for axis in axes for n in ([f"{prefix}d{i}" for i in range(dots)] if axis == "..." else [self._named(axis)])]
        self.axes.update(zip(names, array.shape, strict=True))
        return names

    def _named(self, axis: str) -> str:
        """An axis as a name; of an expression the name is made of it, and a constraint says what it is."""
        if axis.isidentifier():
            return axis
        name = "size_" + re.sub(r"\W+", "_", axis)
        if not axis.isdigit() and f"{name} == {axis}" not in self.constraints:
            self.constraints.append(f"{name} == {axis}")
        return name

    def _outputs(self) -> dict[str, Any]:
        shapes, outputs = self.op.signature.shapes(self.sizes), dict[str, Any]()
        for i, (result, (shape, dtype)) in enumerate(zip(self.op.signature.results, shapes, strict=True)):
            names = self._result_axes(result.axes, shape)
            outputs["result" if len(shapes) == 1 else f"result_{i}"] = {"shape": names, "dtype": str(dtype)}
        for name in self.op.writes:
            if name in self.inputs:
                outputs[f"{name}_after"] = dict(self.inputs[name])
        return outputs

    def _result_axes(self, axes: Axes, shape: tuple[int, ...]) -> list[str]:
        dots, names = len(shape) - (len(axes) - 1), list[str]()
        broadcast = any(a.broadcast for a in self.op.signature.arguments.values())
        for axis in axes:
            if axis == "...":
                names += [f"{'result_' if broadcast else ''}d{i}" for i in range(dots)]
            else:
                named = axis if axis.isidentifier() and axis in self.axes else "result_" + re.sub(r"\W+", "_", axis)
                self.axes.setdefault(named, evaluate(axis, self.sizes))
                names.append(named)
        self.axes.update({n: s for n, s in zip(names, shape, strict=True) if n not in self.axes})
        return names


def _constant_axes(op: Op, tensors: Mapping[str, Array]) -> set[str]:
    """Axes of weights and of vectors of floats: what a model's sizes fix."""
    arguments = [op.signature.arguments[n] for n in tensors]
    kept = [a for a in arguments if a.kind == "w" or (a.kind == "f" and len(a.axes) == 1 and a.axes[0] not in ("...", "T", "R"))]
    return {axis for a in kept for axis in (*a.axes, "E") if axis != "..."}


def _stacked(name: str, values: Any) -> Array:
    if any(isinstance(v, Blocks) for v in values):
        raise Inexpressible(QUANTISED)
    if len({(v.shape, v.dtype) for v in values}) != 1:
        raise Inexpressible(f"{name} is arrays of several shapes, which can't be stacked into one")
    return np.stack(values)


def _dtype(name: str, array: Array) -> str:
    if str(array.dtype) not in DTYPES:
        raise Inexpressible(f"{name} is {array.dtype}, which the format lacks")
    return str(array.dtype)


def _literal(value: Any) -> str:
    return f"float({str(value)!r})" if isinstance(value, float) else repr(value)


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, text)


def _add(path: Path, data: Json) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(data) + "\n")
