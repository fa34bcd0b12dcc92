"""What a body may name: its variables, what its kernel declares, and the functions of the dialect."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from vtcore.providers.kernels.words import BrokenRuleError, Word

if TYPE_CHECKING:
    from vtcore.providers.kernels.declare import Kernel

FLOATS = ("f32", "f16", "bf16", "e4m3", "e5m2")
TYPE = dict.fromkeys(FLOATS, "float") | {"i32": "int", "i8": "int", "u32": "uint", "u8": "uint"}  # of an element, as a body sees it
# functions of values that a target has: one of the same name would be another, or none
BUILT_IN = frozenset(
    (
        "all", "any", "as_float", "as_int", "as_uint", "asfloat", "atan", "atan2", "ceil", "clamp", "clz", "cross", "degrees",
        "determinant", "distance", "dot", "exp2", "exp10", "fabs", "fma", "fmax", "fmin", "fmod", "fract", "isinf", "isnan", "ldexp",
        "length", "lgamma", "log2", "log10", "mad", "max", "min", "mix", "mod", "normalize", "popcount", "pown", "powr", "radians",
        "remainder", "rint", "rotate", "round", "rsqrt", "saturate", "select", "sign", "signbit", "smoothstep", "step", "trunc"
    )
)  # fmt: skip
FIXED = "it can't be changed: take a variable of the body's own"
GROUPED = ("BARRIER", "GROUP_SUM", "GROUP_MAX")  # where all work items of a group meet


class Function(NamedTuple):
    """What it takes and gives: types, or `any` number."""

    takes: Sequence[str]
    gives: str


@dataclass(eq=False)
class Named:
    """A variable, a scalar or an array. `fixed`: nothing may be stored in it. `varies`: its values differ among a group's work items."""

    type: str
    array: bool = False
    fixed: bool = False
    varies: bool = False
    own: bool = False  # declared in the body or helper


def functions(*, helper: bool) -> dict[str, Function]:
    """Those of the dialect; a helper knows neither groups nor barriers."""
    one, two, any_ = Function(("float",), "float"), Function(("float", "float"), "float"), ("any",)
    found = dict.fromkeys(("exp", "log", "sqrt", "sin", "cos", "tanh", "floor", "ABS", "RINT", "RSQRT"), one)
    found |= {"pow": two, "vt_quotient": two, "FMA": Function(("float",) * 3, "float")}
    found |= {"F32": Function(any_, "float"), "U32": Function(any_, "uint"), "I32": Function(any_, "int")}
    found |= {"AS_F32": Function(any_, "float"), "AS_U32": Function(any_, "uint"), "AS_I32": Function(any_, "int")}
    found |= {f"vt_from_{d}": Function(("uint",), "float") for d in FLOATS[1:]}
    found |= {f"vt_to_{d}": Function(("float",), "uint") for d in FLOATS[1:]}
    if not helper:
        found |= {"BARRIER": Function((), "nothing"), "GROUP_SUM": one, "GROUP_MAX": one}
    return found


def accessors(kernel: Kernel, types: Mapping[str, str]) -> dict[str, Function]:
    """LD_x and ST_x, or U8_x, U16_x and U32_x, of each buffer; `types`: of the elements, by the buffer's name."""
    found = dict[str, Function]()
    for buffer in kernel.buffers:
        if types[buffer.name] == "bytes":
            found |= {f"U{bits}_{buffer.name}": Function(("uint",), "uint") for bits in (8, 16, 32)}
            continue
        found[f"LD_{buffer.name}"] = Function(("uint",), types[buffer.name])
        if buffer.written:
            found[f"ST_{buffer.name}"] = Function(("uint", "any"), "nothing")
    return found


def declared(kernel: Kernel) -> dict[str, Named]:
    """Work items' places, the kernel's constants, scalars and shared arrays."""
    found = {name: Named("uint", fixed=True, varies=name in ("LANE", "INDEX")) for name in ("GROUP", "LANE", "WG", "INDEX")}
    found |= {name: Named("uint", fixed=True) for name, _ in kernel.constants}
    found |= {p.name: Named(TYPE[p.dtype], fixed=True) for p in kernel.parameters}
    return found | {s.name: Named(TYPE[s.dtype], array=True) for s in kernel.shared}


def number(word: Word) -> str:
    """The type of a literal. BrokenRuleError for one that a target lacks, or that 32 bits don't hold."""
    text = word.text
    if re.fullmatch(r"(\d+\.\d*|\.\d+|\d+(?=e))(e[-+]?\d+)?f", text):
        return "float"
    if not re.fullmatch(r"(0|[1-9]\d*|0[xX][\da-fA-F]+)u?", text):
        raise BrokenRuleError(word.line, f"{text} is no number of the dialect: write 1.5f, 2u, 2 or 0x1fu")
    value, unsigned = int(text.rstrip("u"), 0), text.endswith("u")
    if value >> (32 if unsigned else 31):
        raise BrokenRuleError(word.line, f"{text} doesn't fit {'32 bits' if unsigned else 'an int; write it with u'}")
    return "uint" if unsigned else "int"
