"""From a plain function to LLVM's text, by Numba: with strict floating point, without reference counts, exceptions or Python's runtime."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numba as untyped
from numba import extending, types

from vtcore.errors import ProviderError
from vtcore.providers.portable.emit import COUNTER
from vtcore.providers.portable.kernels.plain.words import HELPERS, array, claim, root

numba: Any = untyped  # not every version has types
LOCK = threading.Lock()
SIGNATURE = "void(int64, int64, int64)"
RUNTIME = ("memcpy", "memmove", "memset")  # what code may call besides LLVM's intrinsics
WRAPPER = """
declare i32 @"{inner}"(ptr, ptr, i64, i64, i64)
define void @"{symbol}"(i64 %table, i64 %thread, i64 %threads) {{
  %result = alloca ptr
  %exception = alloca ptr
  %status = call i32 @"{inner}"(ptr %result, ptr %exception, i64 %table, i64 %thread, i64 %threads)
  ret void
}}
define void @NRT_incref(ptr %nothing) {{
  ret void
}}
define void @NRT_decref(ptr %nothing) {{
  ret void
}}
"""  # arrays are views of memory that others own: there are no references to count


def exported(body: Callable[..., None], symbol: str) -> str:
    """A module that exports one function void(int64, int64, int64), and needs nothing but LLVM's runtime."""
    with LOCK:
        inner, text = compiled(body)
    module = llvm.parse_assembly(text)
    module.link_in(llvm.parse_assembly(WRAPPER.format(inner=inner, symbol=symbol)))
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.name != symbol:
            value.linkage = "internal"
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(_machine(), llvm.create_pipeline_tuning_options()))
    _lonely(module, body.__name__)
    return str(module)


@cache
def compiled(body: Callable[..., None]) -> tuple[str, str]:
    """The name of Numba's function (status, by way of two pointers and the arguments), and the module that holds it."""
    _teach()
    options = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    made = numba.njit(SIGNATURE, **options)(body)
    signature = made.signatures[0]
    return made.overloads[signature].fndesc.llvm_func_name, made.inspect_llvm(signature)


@cache
def _teach() -> None:
    """Once a process: what kernels call."""
    numba.extending.overload(array)(lambda address, size, dtype: lambda address, size, dtype: numba.carray(pointer(address), size, dtype))
    numba.extending.overload(claim)(lambda table: lambda table: claimed(table))
    numba.extending.overload(root)(lambda x: lambda x: rooted(x))
    for function in HELPERS:
        numba.extending.register_jitable(function)


def _pointer(context: Any, address: Any) -> Any:
    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], target.get_value_type(types.voidptr))

    return types.voidptr(types.int64), generate


def _claimed(context: Any, table: Any) -> Any:
    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = target.get_value_type(types.int64)
        counter = builder.inttoptr(builder.add(arguments[0], word(8 * COUNTER)), word.as_pointer())
        return builder.atomic_rmw("add", counter, word(1), "seq_cst")

    return types.int64(types.int64), generate


def _rooted(context: Any, x: Any) -> Any:
    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.call(builder.module.declare_intrinsic("llvm.sqrt", [arguments[0].type]), arguments)

    return types.float64(types.float64), generate


pointer: Any = extending.intrinsic(_pointer)
claimed: Any = extending.intrinsic(_claimed)
rooted: Any = extending.intrinsic(_rooted)


@cache
def _machine() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine()


def _lonely(module: Any, name: str) -> None:
    """Raise where code needs Python's or Numba's runtime, or may fail: then it can't run in a thread of the team."""
    foreign = [f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.") and f.name not in RUNTIME]
    if foreign or "numba_exception_output" in str(module):
        raise ProviderError(
            f"the plain kernel {name}, as Numba {numba.__version__} compiles it, needs {', '.join(foreign) or 'exceptions'}; "
            "it may only use arrays, numbers and helpers: another version of Numba may do, or providers=reference"
        )
