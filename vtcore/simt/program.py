"""Kernels' texts as one C++ text with a function a kernel to launch it, compiled and loaded."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vtcore.errors import ProviderError
from vtcore.simt.compiler import library
from vtcore.simt.signature import DTYPES, Parameter, Signature, bare, signatures

INCLUDES = {"cuda": "cuda.hpp", "metal": "metal_stdlib", "opencl": "opencl.hpp"}
ATTRIBUTES = r"\b__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)"
VECTOR = r"\(\s*(float|int|uint)([24])\s*\)\s*\("  # OpenCL's way to make one
WAITS = re.compile(r"\w*(?:sync|barrier|shfl|simd|sub_group|work_group_|ballot|BARRIER|GROUP_SUM|GROUP_MAX)\w*|#\s*include\s*\"")
REWRITTEN = {
    "cuda": (
        (r"#\s*include\s*<(?:cuda_runtime|cuda_runtime_api|device_launch_parameters|cuda)\.h>", ""),
        (r"\bextern\s+__shared__\s+([\w ]+?)\s+(\w+)\s*\[\s*\]", r"\1* \2 = (\1*)vt::room"),
    ),
    "metal": ((r"\[\[[^\]]*\]\]", ""), (r"\bthreadgroup\b(?=\s+(?:const\s+)?\w+\s*[*&])", "threadgroup_pointer")),
    "opencl": (
        (r"#\s*pragma\s+OPENCL[^\n]*", ""),
        (ATTRIBUTES, ""),
        (r"\b(?:__)?local\b(?=\s+(?:const\s+)?\w+(?:\s+\w+)?\s*\*)", "local_pointer"),
        (VECTOR, r"make_\1\2("),
    ),
}
AT = ", ".join(f"vt::group.{a} * vt::size.{a} + vt::tid.{a}" for a in "xyz")
ALL = ", ".join(f"vt::grid.{a} * vt::size.{a}" for a in "xyz")
PLACES = {
    "threadgroup_position_in_grid": "vt::group",
    "thread_position_in_threadgroup": "vt::tid",
    "threads_per_threadgroup": "vt::size",
    "threadgroups_per_grid": "vt::grid",
    "thread_position_in_grid": f"vt::uint3{{{AT}}}",
    "threads_per_grid": f"vt::uint3{{{ALL}}}",
    "thread_index_in_threadgroup": "vt::lane",
    "thread_index_in_simdgroup": "(vt::lane % vt::width)",
    "simdgroup_index_in_threadgroup": "(vt::lane / vt::width)",
    "threads_per_simdgroup": "vt::width",
    "simdgroups_per_threadgroup": "((vt::items + vt::width - 1) / vt::width)",
}
SINGLE = ("vt::lane", "(vt::", "((vt::", "vt::width")  # places that are one number


class Settings(ctypes.Structure):
    """How a launch is run; simt.hpp has the same."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("size", ctypes.c_uint * 3),
        *((name, ctypes.c_uint) for name in ("order", "seed", "poison", "waits", "subgroup", "room")),
    )


@dataclass(frozen=True)
class Text:
    """A text that holds kernels, in one of the languages."""

    code: str
    language: str
    name: str = "kernel"  # as compilers call the file

    @cached_property
    def kernels(self) -> tuple[Signature, ...]:
        """In order."""
        return tuple(signatures(self.code, self.language))

    @cached_property
    def waits(self) -> bool:
        """Whether its work items may wait for each other."""
        return WAITS.search(bare(self.code)) is not None


def cpp(texts: Sequence[Text]) -> str:
    """One C++ text. Several texts get a namespace each, and lose their macros at its end."""
    parts = [f'#define VT_SECTION vt_shared\n#include "{INCLUDES[texts[0].language]}"\n']
    for i, text in enumerate(texts):
        code = bare(text.code)
        for pattern, by in REWRITTEN[text.language]:
            code = re.sub(pattern, by, code)
        body = f'#undef VT_SECTION\n#define VT_SECTION vt_shared{i}\n#line 1 "{text.name}"\n{code}\n'
        launches = "".join(_launch(s, i) for s in text.kernels)
        wrapped = f"namespace vt_text{i} {{\n{body}{launches}}}\n" if len(texts) > 1 else body + launches
        parts.append(wrapped + (undefined(code) if len(texts) > 1 else ""))
    return "".join(parts)


def undefined(code: str) -> str:
    """Takes back the macros that a text defines."""
    return "".join(f"#undef {name}\n" for name in dict.fromkeys(re.findall(r"^\s*#\s*define\s+(\w+)", code, re.MULTILINE)))


def _launch(kernel: Signature, section: int) -> str:
    """An exported function that launches a kernel, and one that tells the bytes that its text shares."""
    begin, end = (f"__{edge}_vt_shared{section}" for edge in ("start", "stop"))
    edges = "".join(f'extern "C" char {e}[] __attribute__((weak, visibility("hidden")));\n' for e in (begin, end))
    export = 'extern "C" __attribute__((visibility("default")))'
    return (
        f"#ifdef __ELF__\n{edges}#define VT_BYTES (size_t)({end} - {begin})\n#define VT_BEGIN {begin}\n"
        "#else\n#define VT_BYTES 0\n#define VT_BEGIN nullptr\n#endif\n"
        f"static void vt_call_{kernel.name}() {{ {kernel.name}({', '.join(_arguments(kernel))}); }}\n"
        f"{export} const char* vt_launch_{kernel.name}(const vt::Settings* s, void** b, const char* v) {{\n"
        f"    vt::buffers = b, vt::values = v;\n    return vt::launch(*s, vt_call_{kernel.name}, VT_BEGIN, VT_BYTES);\n}}\n"
        f"{export} size_t vt_shared_{kernel.name}() {{ return VT_BYTES; }}\n#undef VT_BYTES\n#undef VT_BEGIN\n"
    )


def _arguments(kernel: Signature) -> list[str]:
    layout = Layout(kernel)
    return [layout.argument(p) for p in kernel.parameters]


class Layout:
    """Where each parameter is found: buffers in a table, numbers one behind the other at their own alignment."""

    def __init__(self, kernel: Signature) -> None:
        self.buffers = {p.name: i for i, p in enumerate(kernel.buffers)}
        self.offsets: dict[str, int] = {}
        self.nbytes = 0
        for scalar in kernel.scalars:
            size = np.dtype(DTYPES[scalar.type]).itemsize
            self.offsets[scalar.name] = -(-self.nbytes // size) * size
            self.nbytes = self.offsets[scalar.name] + size

    def argument(self, p: Parameter) -> str:
        """The C++ expression of one."""
        if p.kind == "buffer":
            return f"({'' if p.written else 'const '}{p.type}*)vt::buffers[{self.buffers[p.name]}]"
        if p.kind == "shared":
            return f"({p.type}*)vt::room"
        if p.kind == "place":
            return _place(p)
        return f"*(const {p.type}*)(vt::values + {self.offsets[p.fields[0].name if p.fields else p.name]})"


def _place(p: Parameter) -> str:
    if p.attribute not in PLACES:
        raise ProviderError(f"parameter {p.name}: [[{p.attribute}]] isn't known here; there are {', '.join(PLACES)}")
    value = PLACES[p.attribute]
    if value.startswith(SINGLE):
        return value
    return {"uint3": value, "uint2": f"uint2({value}.x, {value}.y)"}.get(p.type, f"{value}.x")


class Program:
    """Compiled texts: kernels to launch by name. Raises what `library` raises."""

    def __init__(self, texts: Sequence[Text]) -> None:
        self.kernels = {s.name: (s, text) for text in texts for s in text.kernels}
        self._library = ctypes.CDLL(str(library(cpp(texts))))

    def shared(self, name: str) -> int:
        """Bytes that the work items of a group share, by the kernel's own declarations."""
        function = getattr(self._library, f"vt_shared_{name}")
        function.restype = ctypes.c_size_t
        return int(function())

    def launch(self, name: str, buffers: Sequence[int], values: bytes, settings: Settings) -> str | None:
        """Run a kernel over the host's addresses. None, or at which barrier work items were missing."""
        function = getattr(self._library, f"vt_launch_{name}")
        function.restype = ctypes.c_char_p
        table = (ctypes.c_void_p * max(len(buffers), 1))(*buffers)
        wrong: bytes | None = function(ctypes.byref(settings), table, values)
        return wrong.decode() if wrong else None
