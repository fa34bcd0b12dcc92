"""The portable provider: every op's kernels over host memory, on one thread team, for one instruction set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from vtcore.errors import ArgumentError
from vtcore.memory import HOST
from vtcore.op import Op
from vtcore.provider import Provider, Sink
from vtcore.providers import ProviderOptions
from vtcore.providers.portable.cpus import usable_cpus
from vtcore.providers.portable.isa import Isa, choose
from vtcore.providers.portable.jit import VERSIONS, Jit, Kernel, Static
from vtcore.providers.portable.launch import Bound, Launcher, Word
from vtcore.providers.portable.object_cache import ObjectCache
from vtcore.providers.portable.replay import Replay
from vtcore.providers.portable.slabs import Slabs
from vtcore.providers.portable.team import Team

SMALL = 1 << 13  # work (about one float each, 2 us in all) below which sharing it out costs more than it gains


class Portable(Provider):
    """Compiles a kernel when a call first needs it, and runs it on the team. One instance has one instruction set."""

    def __init__(
        self, isa: str | Isa | None = None, threads: int | None = None, objects: ObjectCache | None = None, *, cascade: bool = True
    ) -> None:
        if threads is not None and threads < 1:
            raise ArgumentError(f"threads is {threads}; it must be at least 1, or None for as many as this process may use")
        chosen = isa if isinstance(isa, Isa) else choose(isa)
        self.isa, self.jit, self.cascade = chosen, Jit(chosen, objects), cascade
        self.team = Team(self.jit, threads or usable_cpus())
        self.launcher, self.slabs = Launcher(self.team), Slabs()
        self.preparers: dict[str, Callable[[Any], None]] = {}
        facts = {
            "instruction set": f"{chosen}: {chosen.lanes} floats in a register",
            "compiled for": f"{chosen.machine.triple}, {chosen.cpu}",
            "compiler": VERSIONS,
            "threads": str(self.team.threads),
            "cascade attention": "where neighbouring requests begin alike" if cascade else "off",
            "kernel cache": str(self.jit.objects.files.directory),
        }
        super().__init__("portable", HOST, facts)

    def launch(self, kernel: Kernel, words: Sequence[Word], work: int, /, **static: Static) -> None:
        """Run a kernel: the words of its table in order, how much it does (is it worth sharing out?), what is static by name."""
        self.launcher(self.jit.native(kernel, static), words, work >= SMALL)

    def prepare(self, op: Op, weight: Any) -> None:
        """Repack a weight for the op that will read it: once, in parallel, kept with the weight's storage."""
        if preparer := self.preparers.get(op.name):
            preparer(weight)

    @property
    def records(self) -> bool:
        """Always: every kernel goes through the launcher."""
        return True

    def record(self, sink: Sink) -> AbstractContextManager[None]:
        """Hand each launch over as a Bound."""
        return self.launcher.record(sink)

    def seal(self, launches: Sequence[Bound]) -> Callable[[], None]:
        """One native call for all of them."""
        return Replay(self.team, launches)

    def page_order(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...] | None:
        """[page, slot, head, column]: neighbouring keys side by side, column by column; values token by token; each head for itself."""
        if len(shape) != 4:
            return None
        return (0, 2, 3, 1) if name == "k" else (0, 2, 1, 3)

    def close(self) -> None:
        """Stop the threads."""
        self.team.close()


def make(options: ProviderOptions) -> Portable:
    """A portable provider. Raises ProviderUnavailableError where the wanted instruction set can't run here."""
    from vtcore.providers.portable.kernels import register_all

    provider = Portable(options.isa, options.threads, cascade=options.cascade)
    register_all(provider)
    return provider
