"""What is served, row by row, and the tests that show it: those that are marked with `@pytest.mark.feature(row)`."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROWS: Mapping[str, tuple[str, ...]] = {
    "Scheduling": (
        "Continuous batching",
        "Chunked prefill",
        "Automatic prefix caching",
        "Preemption and recompute",
        "Priority scheduling",
        "LPM cache-aware admission",
        "In-batch prefix de-prioritization",
        "Async / overlap scheduling",
        "Partial-prefill concurrency",
        "Cascade attention",
    ),
    "KV cache": (
        "Block-paged KV with refcount and LRU evict",
        "Hybrid KV groups (full attention + GDN/Mamba)",
        "Sliding-window and chunked-local attention",
        "fp8 KV cache",
        "KV offload to host memory",
        "KV events (block create / evict publish)",
        "Prefix-cache matching unit",
        "Automatic memory sizing (no hand-tuned budget)",
        "Memory cap with a pre-flight error instead of an OOM",
    ),
}


def shown() -> dict[str, list[str]]:
    """By row, the tests that are marked with it, as paths that pytest takes."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for row, test in _marked(ast.parse(path.read_text(encoding="utf-8"))):
            found[row].append(f"{path.relative_to(ROOT).as_posix()}::{test}")
    return found


def lines() -> Iterator[str]:
    """Tables for a page, one a part."""
    tests = shown()
    for part, rows in ROWS.items():
        yield from (f"## {part}", "", "| feature | shown by |", "|---|---|")
        yield from (f"| {row} | {'<br>'.join(f'`{t}`' for t in tests[row]) or 'nothing yet'} |" for row in rows)
        yield ""


def _marked(module: ast.Module) -> Iterator[tuple[str, str]]:
    for test in ast.walk(module):
        if isinstance(test, ast.FunctionDef):
            yield from ((row, test.name) for mark in test.decorator_list if (row := _row(mark)) is not None)


def _row(mark: ast.expr) -> str | None:
    if not isinstance(mark, ast.Call) or ast.unparse(mark.func) != "pytest.mark.feature":
        return None
    return str(ast.literal_eval(mark.args[0]))
