"""The dialect's rules: what one of the four targets would refuse, or would take to mean something else."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from vtcore.errors import ProviderError
from vtcore.providers.kernels.meeting import missed

if TYPE_CHECKING:
    from vtcore.providers.kernels.declare import Kernel

WORD = re.compile(r"[A-Za-z_]\w*")
MOST = 1024  # work items that a processor of every CUDA architecture holds
RESERVED = frozenset(
    (
        "sample",
        "input",
        "output",
        "out",
        "in",
        "inout",
        "common",
        "filter",
        "active",
        "half",
        "texture",
        "device",
        "constant",
        "thread",
        "kernel",
        "buffer",
        "shared",
        "local",
        "global",
        "patch",
        "precise",
        "flat",
        "smooth",
        "invariant",
        "coherent",
        "volatile",
        "restrict",
        "readonly",
        "writeonly",
        "centroid",
        "subroutine",
        "resource",
        "partition",
        "fixed",
        "cast",
        "interface",
        "namespace",
    )
)
TYPES = frozenset(
    (
        "double",
        "long",
        "short",
        "char",
        "uchar",
        "ushort",
        "size_t",
        "auto",
        "unsigned",
        "signed",
        "float2",
        "float3",
        "float4",
        "vec2",
        "vec3",
        "vec4",
        "int2",
        "int4",
        "uint2",
        "uint4",
        "half2",
    )
)
RULES: tuple[tuple[str, str], ...] = (
    (r"\(\s*(float|int|uint)\s*\)", "a cast is F32(x), U32(x) or I32(x)"),
    (
        r"(?<![\w.])\d+\.\d*(e[-+]?\d+)?(?![\dfe.])|(?<![\w.])\d+e[-+]?\d+(?!\w)",
        "a float literal ends in f, such as 1.0f: elsewhere it would be a double",
    ),
    (r"\bf(min|max|abs|ma)f?\s*\(", "write min, max, ABS or FMA"),
    (r"\b(?:exp|log|sqrt|sin|cos|tanh|pow|floor)f\s*\(", "functions of floats have no f at the end: exp, log, sqrt"),
    (r"(?<![\w])abs\s*\(", "write ABS(x) of a float; OpenCL's abs is of integers"),
    (r"->|\*\s*\w+\s*=\s*&|&\w+\s*\[|\bvoid\s*\*|\b(?:float|uint|int)\s*\*", "there are no pointers: read by LD_x(i), write by ST_x(i, v)"),
    (r"\b__\w+", "names that begin with two underscores belong to a target"),
    (r"\bsizeof\b", "sizeof is not in GLSL"),
    (r"\bgoto\b|\bswitch\b", "write if and for"),
    (r"#", "a preprocessor line: use constants"),
    (r"\b(get_global_id|threadIdx|blockIdx|gl_\w+)\b", "work items are named by GROUP, LANE and INDEX"),
)

SIDES = re.compile(  # a name alone on the left, or on the right, of && and ||
    r"(?:\(|&&|\|\||(?<![<>!=])=)\s*!?\s*(\w+)\s*(?=&&|\|\|)|(?:&&|\|\|)\s*!?\s*(\w+)\s*(?=[);]|&&|\|\|)"
)
BUFFERS = re.compile(r"\b(?:(?:LD|ST|U8|U16|U32)_\w+|LANE|GROUP|INDEX|BARRIER|GROUP_SUM|GROUP_MAX)\b")


def check(kernel: Kernel) -> None:
    """Raises ProviderError with the first rule that a kernel breaks, and its line."""
    for part, text in (("body", kernel.body), ("helpers", kernel.helpers)):
        for number, line in enumerate(text.splitlines(), 1):
            if wrong := _line(line):
                raise ProviderError(f"kernel {kernel.name}: {part}, line {number}: {wrong}: {line.strip()[:100]!r}")
    if wrong := _names(kernel) or _whole(kernel):
        raise ProviderError(f"kernel {kernel.name}: {wrong}")


@lru_cache(1 << 16)  # kernels made from one pattern share most lines
def _line(line: str) -> str | None:
    code = line.split("//")[0]
    for pattern, rule in RULES:
        if re.search(pattern, code):
            return rule
    for word in WORD.findall(code):
        if word in RESERVED:
            return f"{word} is a reserved word of a target"
        if word in TYPES:
            return f"{word} is no type of the dialect: it has float, int, uint and bool"
    return None


def _whole(kernel: Kernel) -> str | None:
    """What no single line shows."""
    body, helpers = (re.sub(r"//[^\n]*", "", text) for text in (kernel.body, kernel.helpers))
    if word := BUFFERS.search(helpers):
        return f"a helper uses {word[0]}: helpers take values and give values, and know no buffer, work item or barrier"
    return missed(body) or _conditions(kernel, body) or _resident(kernel)


def _resident(kernel: Kernel) -> str | None:
    if 0 <= kernel.resident <= MOST and kernel.resident % kernel.group == 0:
        return None
    return f"resident={kernel.resident} is no whole number of groups of {kernel.group} work items, {MOST} work items at most"


def _conditions(kernel: Kernel, body: str) -> str | None:
    """A condition is a bool: GLSL takes no number for one."""
    numbers = {s.name for s in kernel.scalars} | set(re.findall(r"\b(?:uint|int|float)\s+(\w+)", body))
    for name in re.findall(r"\b(?:if|while)\s*\(\s*!?\s*(\w+)\s*\)", body):
        if name in numbers:
            return f"if ({name}): {name} is a number; compare it, such as {name} > 0u"
    for left, right in SIDES.findall(body):
        if (name := left or right) in numbers:
            return f"{name} is a number beside && or ||: compare it, such as {name} > 0u"
    return None


def _names(kernel: Kernel) -> str | None:
    names = [b.name for b in kernel.buffers] + [s.name for s in kernel.scalars] + [s.name for s in kernel.shared]
    for name in names:
        if name in RESERVED or name in TYPES or not name.isidentifier() or name.startswith("vt_"):
            return f"{name!r} can't be a name: it is reserved"
    if len(set(names)) < len(names):
        return f"a name is used twice: {', '.join(sorted({n for n in names if names.count(n) > 1}))}"
    written = [b.name for b in kernel.buffers if b.written]
    for name in re.findall(r"\bST_(\w+)", kernel.body):
        if name not in written:
            return f"it stores to {name}, which isn't declared as written"
    return None if written else "it writes no buffer"
