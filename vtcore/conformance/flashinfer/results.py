"""What a provider made of cases, as traces of FlashInfer Trace."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from statistics import median
from typing import Any

from vtcore.bench import machine
from vtcore.bench.op_timing import Effort, race
from vtcore.conformance.case import Case
from vtcore.conformance.check import run
from vtcore.conformance.flashinfer.export import Exported
from vtcore.conformance.flashinfer.schema import Json, check_trace
from vtcore.conformance.verdict import Verdict
from vtcore.provider import Provider
from vtcore.providers import find

STATUSES = {
    "wrong_value": "INCORRECT_NUMERICAL",
    "wrong_shape": "INCORRECT_SHAPE",
    "wrong_dtype": "INCORRECT_DTYPE",
    "timed_out": "TIMEOUT",
}
SHORT = Effort(rounds=3, seconds=0.0, judging=0.0)
SETS = 2  # of inputs that the timing takes turns with


def trace(provider: Provider, case: Case, exported: Exported) -> Json | None:
    """The trace of one case; None where the provider declines it, for which the format has no status."""
    verdict = run(provider, case)
    if verdict.outcome == "declined":
        return None
    status = "PASSED" if verdict.outcome == "pass" else STATUSES.get(verdict.kind, "RUNTIME_ERROR")
    correct, fast = status in ("PASSED", "INCORRECT_NUMERICAL"), status == "PASSED"
    evaluation = {
        "status": status,
        "environment": {"hardware": machine.processor(), "libs": _libraries()},
        "timestamp": datetime.now(UTC).isoformat(),
        "log": verdict.reason,
        **({"correctness": _correctness(verdict)} if correct else {}),
        **({"performance": _performance(provider, case)} if fast else {}),
    }
    name = exported.definition["name"]
    made = {"definition": name, "workload": exported.workload, "solution": f"vtcore_{provider.name}", "evaluation": evaluation}
    return check_trace(made, name)


def _libraries() -> dict[str, str]:
    return {n: v for n in machine.PACKAGES if (v := machine.package(n))}


def _correctness(verdict: Verdict) -> dict[str, Any]:
    """Infinities and NaN as text, as the format has them in JSON."""
    if verdict.worst is None:
        return {"max_relative_error": 0.0, "max_absolute_error": 0.0}
    numbers: Mapping[str, Any] = verdict.worst.as_dict()
    names = {"inf": "Infinity", "nan": "NaN"}
    shown = {n: names.get(v, v) if isinstance(v, str) else v for n, v in numbers.items() if n in ("relative", "error", "bound")}
    errors = {"max_relative_error": shown["relative"], "max_absolute_error": shown["error"]}
    return {**errors, "extra": {"allowed": shown["bound"], "where": f"{verdict.worst.what}{list(verdict.worst.index)}"}}


def _performance(provider: Provider, case: Case) -> dict[str, float]:
    mine, reference = race(case.op, case.call, [provider, find("reference")], SHORT, SETS)
    own, other = (1e3 * median([s for r in t.rounds for s in r]) for t in (mine, reference))
    return {"latency_ms": own, "reference_latency_ms": other, "speedup_factor": other / own}
