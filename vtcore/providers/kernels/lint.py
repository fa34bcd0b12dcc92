"""The dialect's rules: what one of the four targets would refuse, or would take to mean something else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING

from vtcore.errors import ProviderError
from vtcore.providers.kernels import named
from vtcore.providers.kernels.grammar import Grammar, Node
from vtcore.providers.kernels.meeting import Meetings
from vtcore.providers.kernels.reading import Reading
from vtcore.providers.kernels.words import BrokenRuleError

if TYPE_CHECKING:
    from vtcore.providers.kernels.declare import Kernel

WORD = re.compile(r"[A-Za-z_]\w*")
MOST = 1024  # work items that a processor of every CUDA architecture holds
SHARED = 32 << 10  # bytes that the work items of a group share, on every device
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
OWN = frozenset(("GROUP", "LANE", "WG", "INDEX", *named.functions(helper=False), "min", "max"))  # what the dialect itself names
SCALARS = ("u32", "i32", "f32")
FOREIGN = frozenset(  # types that some target has
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

BUFFERS = re.compile(r"\b(?:(?:LD|ST|U8|U16|U32)_\w+|LANE|GROUP|INDEX|BARRIER|GROUP_SUM|GROUP_MAX)\b")
_trusted = False


@contextmanager
def trusted() -> Iterator[None]:
    """Inside, kernels are declared that keep the rules already, as a test holds the package's own to do: they are not read again."""
    global _trusted
    before, _trusted = _trusted, True
    try:
        yield
    finally:
        _trusted = before


def declared(kernel: Kernel) -> None:
    """What a declaration asks for: `check`, unless the kernel is trusted."""
    if not _trusted:
        check(kernel)


def check(kernel: Kernel) -> None:
    """Raises ProviderError with the first rule that a kernel breaks, and its line."""
    for part, text in (("body", kernel.body), ("helpers", kernel.helpers)):
        for number, line in enumerate(text.splitlines(), 1):
            if wrong := _line(line):
                raise ProviderError(f"kernel {kernel.name}: {part}, line {number}: {wrong}: {line.strip()[:100]!r}")
    if wrong := _names(kernel) or _sizes(kernel) or _helpers(kernel):
        raise ProviderError(f"kernel {kernel.name}: {wrong}")
    for types in _types(kernel):
        _read(kernel, types)


@lru_cache(1 << 16)  # kernels made from one pattern share most lines
def _line(line: str) -> str | None:
    code = line.split("//")[0]
    for pattern, rule in RULES:
        if re.search(pattern, code):
            return rule
    for word in WORD.findall(code):
        if word in RESERVED:
            return f"{word} is a reserved word of a target"
        if word in FOREIGN:
            return f"{word} is no type of the dialect: it has float, int, uint and bool"
    return None


def _types(kernel: Kernel) -> Iterator[dict[str, str]]:
    """By buffer, the type of its elements: in every way in which variants differ."""
    choices = [sorted({named.TYPE.get(dtype, "bytes") for dtype in b.dtypes}) for b in kernel.buffers]
    for types in product(*choices):
        yield dict(zip((b.name for b in kernel.buffers), types, strict=True))


def _read(kernel: Kernel, types: dict[str, str]) -> None:
    """Read helpers and body as all targets would."""
    known = named.functions(helper=True)
    with _told(kernel, "helpers", kernel.helpers):
        for helper in Grammar(kernel.helpers).functions():
            _helper(kernel, helper, known)
    with _told(kernel, "body", kernel.body):
        body = Grammar(kernel.body).body()
        reading = Reading(named.declared(kernel), named.functions(helper=False) | known | named.accessors(kernel, types))
        reading.inside(body)
        Meetings(body, reading).check()


def _helper(kernel: Kernel, helper: Node, known: dict[str, named.Function]) -> None:
    """Read one; from then on it is known, to those behind it and not to itself: no target's functions call themselves."""
    *parameters, block = helper.parts
    if helper.word.text in known or helper.word.text in named.BUILT_IN:
        raise BrokenRuleError(
            helper.word.line, f"{helper.word.text} is a function of a target already: choose another name, such as my_{helper.word.text}"
        )
    constants = {name: named.Named("uint", fixed=True) for name in ("WG", *(n for n, _ in kernel.constants))}
    reading = Reading(constants, known, helper.text)
    for parameter in parameters:
        reading.declare(parameter.parts[0], parameter.word.text)
    reading.read(block)
    known[helper.word.text] = named.Function([p.word.text for p in parameters], helper.text)


@contextmanager
def _told(kernel: Kernel, part: str, text: str) -> Iterator[None]:
    """Name the kernel and the line."""
    try:
        yield
    except BrokenRuleError as wrong:
        line = "".join(text.splitlines()[wrong.line - 1 : wrong.line]).strip()
        raise ProviderError(f"kernel {kernel.name}: {part}, line {wrong.line}: {wrong}: {line[:100]!r}") from None


def _helpers(kernel: Kernel) -> str | None:
    if word := BUFFERS.search(re.sub(r"//[^\n]*", "", kernel.helpers)):
        return f"a helper uses {word[0]}: helpers take values and give values, and know no buffer, work item or barrier"
    return None


def _names(kernel: Kernel) -> str | None:
    names = [b.name for b in kernel.buffers] + [s.name for s in kernel.scalars] + [s.name for s in kernel.shared]
    for name in (*names, *(n for n, _ in kernel.constants), kernel.name):
        taken = name in RESERVED or name in FOREIGN or name in OWN or (name.startswith("vt_") and name != kernel.name)
        if taken or not WORD.fullmatch(name):
            return f"{name!r} can't be a name: it is reserved, or holds more than letters, digits and _"
    names += [n for n, _ in kernel.constants]
    if len(set(names)) < len(names):
        return f"a name is used twice: {', '.join(sorted({n for n in names if names.count(n) > 1}))}"
    written = [b.name for b in kernel.buffers if b.written]
    for name in re.findall(r"\bST_(\w+)", kernel.body):
        if name not in written:
            return f"it stores to {name}, which isn't declared as written"
    return _dtypes(kernel) if written else "it writes no buffer"


def _dtypes(kernel: Kernel) -> str | None:
    """What buffers, scalars and shared arrays are of."""
    asked = [(b.name, d, (*named.TYPE, "bytes")) for b in kernel.buffers for d in b.dtypes]
    asked += [(s.name, s.dtype, SCALARS) for s in kernel.scalars] + [(s.name, s.dtype, SCALARS) for s in kernel.shared]
    for name, dtype, allowed in asked:
        if dtype not in allowed:
            return f"{name} is of {dtype!r}; it may be of {', '.join(allowed)}"
    return None


def _sizes(kernel: Kernel) -> str | None:
    """How large a group is, what it shares, and its constants."""
    if not 1 <= kernel.group <= MOST:
        return f"group={kernel.group}: a group has 1 to {MOST} work items"
    if not 0 <= kernel.resident <= MOST or kernel.resident % kernel.group:
        return f"resident={kernel.resident} is no whole number of groups of {kernel.group} work items, {MOST} work items at most"
    for name, value in kernel.constants:
        if not isinstance(value, int) or not 0 <= value < 1 << 32:
            return f"the constant {name} is {value!r}; it must be a whole number of 32 bits that is not negative"
    lengths = [_length(kernel, s.length) for s in kernel.shared]
    if None in lengths:
        return f"the length {kernel.shared[lengths.index(None)].length!r} is no number, constant or WG, nor a product of such"
    nbytes = 4 * (sum(n for n in lengths if n is not None) + kernel.group * bool(re.search(r"\bGROUP_(?:SUM|MAX)\b", kernel.body)))
    return f"its work items share {nbytes:,} bytes; every device has {SHARED:,}" if nbytes > SHARED else None


def _length(kernel: Kernel, text: str) -> int | None:
    """Of a shared array: a number, a constant, WG, or a product of such. None for anything else."""
    values, total = {"WG": kernel.group, **dict(kernel.constants)}, 1
    for factor in text.split("*"):
        word = factor.strip()
        if word not in values and not re.fullmatch(r"[1-9]\d*u?", word):
            return None
        total *= values.get(word) or int(word.rstrip("u"))
    return total
