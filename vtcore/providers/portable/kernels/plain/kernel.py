"""How plain kernels are declared: `@plain("x n -> y")` above a Python function, used like any kernel; and what their guards share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from vtcore.errors import ProviderError
from vtcore.providers.portable.isa import Isa
from vtcore.providers.portable.jit import Emit, Kernel, Static
from vtcore.tensor import Tensor

if TYPE_CHECKING:
    from vtcore.providers.portable.provider import Portable


class Plain(Kernel):
    """A kernel whose text Numba makes: imported only then, that is, where the cache of compiled code doesn't have it."""

    def text(self, symbol: str, isa: Isa, static: dict[str, Static]) -> str:
        """LLVM's text, made for this machine; an instruction set of it compiles that like any other text."""
        try:
            from vtcore.providers.portable.kernels.plain import numba_text
        except ImportError as error:
            wrong = f"kernel {self.name} is compiled by Numba, which can't be imported: {error}; providers=reference does without"
            raise ProviderError(wrong) from error
        return numba_text.exported(self.emit, symbol)


def plain(signature: str) -> Callable[[Emit], Plain]:
    """Declare a function of (table, thread, threads) as a kernel. The words of its table are as those of `jit.Kernel`."""
    return lambda body: Plain(signature, body)


def recording(p: Portable) -> str | None:
    """Why an op that NumPy takes part in can't run now."""
    return "NumPy takes part in it, which a recorded step can't repeat" if p.launcher.recording else None


def not_int32(**tensors: Tensor) -> str | None:
    """Why the kernels can't read one of these as indices: its dtype."""
    return next((f"{n} is {t.dtype}; the kernel reads int32" for n, t in tensors.items() if str(t.dtype) != "int32"), None)
