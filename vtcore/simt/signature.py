"""A kernel's parameters, read from its text: CUDA C++, Metal or OpenCL C."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vtcore.errors import ArgumentError

LANGUAGES = {".cu": "cuda", ".metal": "metal", ".cl": "opencl"}
MARKS = {"cuda": r"\b__global__\b", "metal": r"\bkernel\b|\[\[\s*kernel\s*\]\]", "opencl": r"\b(?:__)?kernel\b"}
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
ATTRIBUTE = re.compile(r"\[\[\s*(\w+)\s*(?:\(\s*(\w+)\s*\))?\s*\]\]")
QUALIFIERS = frozenset(
    ("const", "volatile", "restrict", "__restrict__", "__restrict", "__global", "global", "__local", "local", "__private", "__constant",
     "device", "constant", "threadgroup", "thread", "struct")
)  # fmt: skip
LOCAL = frozenset(("__local", "local", "threadgroup"))
DTYPES = {
    "float": "f4", "int": "i4", "uint": "u4", "unsigned": "u4", "unsigned int": "u4", "signed": "i4", "double": "f8", "half": "f2",
    "char": "i1", "signed char": "i1", "uchar": "u1", "unsigned char": "u1", "bool": "u1", "short": "i2", "ushort": "u2",
    "unsigned short": "u2", "long": "i8", "ulong": "u8", "unsigned long": "u8", "long long": "i8", "unsigned long long": "u8",
    "size_t": "u8", "int8_t": "i1", "uint8_t": "u1", "int16_t": "i2", "uint16_t": "u2", "int32_t": "i4", "uint32_t": "u4", "int64_t": "i8",
    "uint64_t": "u8", "float2": "f4", "float4": "f4", "int2": "i4", "int4": "i4", "uint2": "u4", "uint4": "u4",
}  # fmt: skip


@dataclass(frozen=True)
class Parameter:
    """One of a kernel. `kind`: buffer, shared (the launch says how large), scalar, struct (of scalars), place (of a work item)."""

    name: str
    type: str
    kind: str
    written: bool = False
    fields: tuple[Parameter, ...] = ()
    attribute: str = ""
    reference: bool = False


@dataclass(frozen=True)
class Signature:
    """A kernel by name, with its parameters, and the work items of a group where the text says how many."""

    name: str
    parameters: tuple[Parameter, ...]
    group: tuple[int, ...] = ()

    @property
    def buffers(self) -> tuple[Parameter, ...]:
        """In order."""
        return tuple(p for p in self.parameters if p.kind == "buffer")

    @property
    def scalars(self) -> tuple[Parameter, ...]:
        """In order, those of structs among them."""
        return tuple(s for p in self.parameters if p.kind in ("scalar", "struct") for s in (p.fields or (p,)))


def bare(text: str) -> str:
    """A text without comments, and with as many lines."""
    return COMMENT.sub(lambda m: " " + "\n" * m[0].count("\n"), text)


def signatures(text: str, language: str) -> list[Signature]:
    """Every kernel of a text. Raises ArgumentError for a parameter that isn't understood."""
    code, found = bare(text), []
    for mark in re.finditer(MARKS[language], code):
        begin = re.compile(r"[^;{}]*?\bvoid\b[^;{}]*?").match(code, mark.end())
        if begin is None:
            continue
        head, at = _head(code, begin.end())
        if head and code[_closing(code, at) :].lstrip().startswith("{"):
            inner = code[at + 1 : _closing(code, at) - 1]
            parameters = tuple(_parameter(p, language, code) for p in _split(inner))
            found.append(Signature(head, parameters, _group(code[mark.start() : at])))
    return found


def _head(code: str, at: int) -> tuple[str, int]:
    """A function's name, and where its parenthesis opens; attributes between are passed over."""
    while match := re.compile(r"\s*(\w+)\s*\(").match(code, at):
        if match[1] not in ("__launch_bounds__", "__attribute__"):
            return match[1], match.end() - 1
        at = _closing(code, match.end() - 1)
    return "", at


def _closing(code: str, at: int) -> int:
    """Behind the parenthesis that closes the one at `at`."""
    depth = 0
    for i in range(at, len(code)):
        depth += (code[i] == "(") - (code[i] == ")")
        if not depth:
            return i + 1
    raise ArgumentError(f"a parenthesis isn't closed: {code[at : at + 60]!r}")


def _split(inner: str) -> list[str]:
    depth, parts = 0, [""]
    for c in inner:
        depth += (c in "([{<") - (c in ")]}>")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts if p.strip() not in ("", "void")]


def _group(head: str) -> tuple[int, ...]:
    """reqd_work_group_size(64, 1, 1) or __launch_bounds__(64), where they are numbers."""
    match = re.search(r"(?:reqd_work_group_size|__launch_bounds__)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?(?:,\s*(\d+)\s*)?\)", head)
    if match is None:
        return ()
    return (int(match[1]),) if "launch_bounds" in match[0] else tuple(int(n) for n in match.groups(default="1"))


def _parameter(text: str, language: str, code: str) -> Parameter:
    attributes = {m[1]: m[2] or "" for m in ATTRIBUTE.finditer(text)}
    plain = ATTRIBUTE.sub("", text)
    words = re.findall(r"\w+", plain)
    if len(words) < 2:
        raise ArgumentError(f"a kernel's parameter isn't understood: {text!r}; a type and a name are needed")
    name, typed = words[-1], " ".join(w for w in words[:-1] if w not in QUALIFIERS)
    pointer, written = "*" in plain, not {"const", "constant", "__constant"} & set(words)
    if pointer:
        kind = "shared" if LOCAL & set(words) else "buffer"
        return Parameter(name, typed, kind, written and kind == "buffer")
    place = next((a for a in attributes if a not in ("buffer", "threadgroup")), "") if language == "metal" else ""
    if place:
        return Parameter(name, typed, "place", attribute=place)
    if typed in DTYPES:
        return Parameter(name, typed, "scalar", reference="&" in plain)
    return Parameter(name, typed, "struct", fields=_fields(typed, code), reference="&" in plain)


def _fields(name: str, code: str) -> tuple[Parameter, ...]:
    match = re.search(rf"\bstruct\s+{name}\s*\{{([^{{}}]*)\}}", code) or re.search(
        rf"\btypedef\s+struct\s*\w*\s*\{{([^{{}}]*)\}}\s*{name}\b", code
    )
    if match is None:
        raise ArgumentError(f"a kernel's parameter has the type {name!r}, which is no number, and no struct of this text")
    fields = []
    for line in filter(None, map(str.strip, match[1].split(";"))):
        typed, _, names = line.rpartition(" ") if "," not in line else line.partition(" ")
        if typed.strip() not in DTYPES or "*" in line or "[" in line:
            raise ArgumentError(f"struct {name}: {line!r} isn't understood; its fields must be numbers")
        fields += [Parameter(n.strip(), typed.strip(), "scalar") for n in names.split(",")]
    return tuple(fields)
