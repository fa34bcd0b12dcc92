"""A pytest plugin: `pytest --vtcore-provider ./mine.py` collects a test for each case of each op that the provider has a kernel for.

Without the option it does nothing. A decline is a skip with its reason; cases run in a process of their own, which they may end."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from vtcore.conformance.case import Case
    from vtcore.conformance.check import Bench
    from vtcore.conformance.verdict import Verdict

OPTION = "--vtcore-provider"
OPENED = pytest.StashKey[ExitStack]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options."""
    group = parser.getgroup("vtcore", "kernels against the definitions of vtcore's ops")
    group.addoption(OPTION, metavar="PROVIDER", help="a name, or ./file.py with kernels: a test for each case of each of its ops")
    group.addoption("--vtcore-ops", metavar="A,B", help="only these ops")
    group.addoption("--vtcore-seed", metavar="N", type=int, default=0, help="another seed draws other values")
    group.addoption("--vtcore-timeout", metavar="SECONDS", type=float, help="for one case (default 60)")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add a test for each case. Raises UsageError where the provider can't be loaded, or an op isn't there."""
    provider = config.getoption(OPTION)
    if not provider:
        return
    from vtcore.conformance.examine import Plan, bench, listed
    from vtcore.errors import VtcoreError

    stack = config.stash[OPENED] = ExitStack()
    try:
        runs, about = stack.enter_context(bench(provider, Plan(seconds=config.getoption("--vtcore-timeout"))))
        names = _names(config.getoption("--vtcore-ops")) or about.kernels
        cases = list(listed(names, config.getoption("--vtcore-seed")))
    except VtcoreError as wrong:
        raise pytest.UsageError(str(wrong)) from None
    file = Path(provider).name
    items += [Kernel.from_parent(session, name=c.label, nodeid=f"{file}::{c.label}", case=c, bench=runs) for c in cases]


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the process that cases ran in."""
    if (stack := config.stash.get(OPENED, None)) is not None:
        stack.close()


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]


class Kernel(pytest.Item):
    """One case."""

    def __init__(self, *, case: Case, bench: Bench, **more: Any) -> None:
        super().__init__(**more)
        self.case, self.bench = case, bench

    def runtest(self) -> None:
        """Run it; a decline is a skip."""
        verdict = self.bench.run(self.case)
        if verdict.outcome == "declined":
            pytest.skip(verdict.reason)
        if verdict.bad:
            raise Wrong(verdict)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The verdict in words; of anything else the traceback."""
        return str(excinfo.value.verdict) if isinstance(excinfo.value, Wrong) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Under what it is listed."""
        return Path(self.config.getoption(OPTION)), None, self.name


class Wrong(Exception):
    """A case that failed."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(str(verdict))
        self.verdict = verdict
