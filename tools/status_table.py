"""Writes docs/status.md and docs/models.md from what is registered, and from marks of tests: what is
served, weight formats, which provider has which op, and architectures."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import vtcore.ops
from vtcore.cli.models import MARKDOWN, listed, row
from vtcore.providers import BUILT_IN
from vtcore.quant import FORMATS
from vtcore.simt.provider import found

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGE, MODELS = DOCS / "status.md", DOCS / "models.md"
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
        "Recorded decode steps",
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
        "Compute directly on quantized blocks",
        "Automatic memory sizing (no hand-tuned budget)",
        "Memory cap with a pre-flight error instead of an OOM",
    ),
}
EVERYTHING = ("reference", "null")  # providers whose rows would say nothing: they take every op


def lines() -> Iterator[str]:
    """The page, line by line."""
    yield from ("# Status", "", "Written by `python tools/status_table.py` from the registries and the tests; a test holds it to them.", "")
    yield from ("Architectures have [a page of their own](models.md).", "")
    yield from features()
    yield from ("## Block formats", "", ", ".join(sorted(FORMATS)) + ".", "")
    providers = [found(name) for name in BUILT_IN if name not in EVERYTHING]
    names = [p.name for p in providers]
    yield from ("## Ops with a kernel", "", f"| op | {' | '.join(names)} |", "|---" * (1 + len(names)) + "|")
    for name in sorted(vtcore.ops.__all__):
        yield f"| {name} | {' | '.join('yes' if name in p.kernels else 'its definition' for p in providers)} |"
    for provider in providers:
        provider.close()


def shown() -> dict[str, list[str]]:
    """By row, the tests that are marked with it, as paths that pytest takes."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for feature, test in _marked(ast.parse(path.read_text(encoding="utf-8"))):
            found[feature].append(f"{path.relative_to(ROOT).as_posix()}::{test}")
    return found


def features() -> Iterator[str]:
    """Tables of what is served and the tests that show it: those marked with `@pytest.mark.feature(row)`."""
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


def models() -> Iterator[str]:
    """The page of architectures, line by line."""
    yield from (
        "# Models",
        "",
        "Written by `python tools/status_table.py`: the table is what `vtcore models --markdown` prints. A test holds it to that.",
        "",
    )
    yield from (
        "Each is read from safetensors, and from GGUF under the name given here; some share one. Where there is none, the format has none",
        "(gguf 0.19). Files may store one model in several ways, all of which are read: experts one by one, stacked, or with gate and up",
        "in one stack; queries, keys and values apart or together; the matrix that expands a latent whole or in two.",
        "What ends in ForConditionalGeneration holds towers for images or sound too; its text model is read, and the rest is set aside.",
        "A golden is a tiny checkpoint with what transformers answers on it: every token must be the same, and every logit within 1e-4",
        "(for Gemma 3n and 4, whose logits transformers itself doesn't repeat more closely, 2e-3), whole, in chunks, and alone.",
        "Where there is none, the table says what the forward was held against instead: it may be wrong where its description is.",
        "It runs on a provider whose kernels take every op of the goldens' forwards: nothing falls back to a definition.",
        "",
    )
    providers = [found(name) for name in BUILT_IN if name not in EVERYTHING]
    yield from (*MARKDOWN, *(row(entry, providers).markdown() for entry in listed() if entry.module.startswith("vtcore.")))
    for provider in providers:
        provider.close()


if __name__ == "__main__":
    for page, made in ((PAGE, lines()), (MODELS, models())):
        page.write_text("\n".join(made) + "\n", encoding="utf-8")
