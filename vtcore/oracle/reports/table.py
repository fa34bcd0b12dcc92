"""A comparison as text: a line a prompt, and what it was held to."""

from __future__ import annotations

from collections.abc import Mapping

from vtcore.oracle.reports.cleaned import shown
from vtcore.oracle.verdict import Comparison, Outcome, PromptVerdict


def table(comparison: Comparison) -> str:
    """Several lines."""
    c, t = comparison, comparison.tolerances
    head = [
        f"recording  {c.recording}: {c.model}, {spelled(c.recorded)}",
        f"engine     {spelled(c.engine)}",
        f"held to    {c.arithmetic}: near tie {t.near_tie:g}, logprob {t.logprob:g}, hidden {t.hidden:g}",
    ]
    rows = [("prompt", "verdict", "tokens", "logprobs within", "")] + [_row(v) for v in c.verdicts]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    lines = ["  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[4]]).rstrip() for row in rows]
    return "\n".join(map(shown, [*head, *(f"note       {n}" for n in c.notes), "", *lines, "", summary(c)]))


def summary(comparison: Comparison) -> str:
    """One line: how many of which, and whether that passes."""
    counts = ", ".join(f"{comparison.count(o)} {o.value}" for o in reversed(Outcome) if comparison.count(o))
    done, tokens = sum(v.compared for v in comparison.verdicts), sum(len(v.places) for v in comparison.verdicts)
    partly = f" ({done} of {tokens} tokens could be compared)" if done < tokens else ""
    return f"{counts}: {'pass' if comparison.passed else 'fail'}{partly}"


def spelled(facts: Mapping[str, str]) -> str:
    """Facts in one line, the name first."""
    return " ".join([facts.get("name", ""), *(f"{n}={v}" for n, v in facts.items() if n != "name")]).strip()


def _row(v: PromptVerdict) -> tuple[str, str, str, str, str]:
    off = v.largest_difference
    layer = v.first_layer
    where = [v.reason] if v.reason else []
    if off is None and v.compared:
        where.append("the engine gave no log probabilities: tokens alone were compared")
    if layer is not None:
        where.append(f"layer {layer.layer} is the first off, at position {layer.position} by {layer.error:.2g}")
    elif v.layers_compared and v.outcome is Outcome.DIVERGED:
        where.append("every layer is within the tolerance up to there")
    same = sum(p.got == p.wanted for p in v.places)
    return v.name, v.outcome.value, f"{same}/{len(v.places)}", "-" if off is None else f"{off:.2g}", "; ".join(where)
