import subprocess
import sys

import pytest

import vtcore

PUBLIC = [
    "AsyncEngine",
    "CompletionOutput",
    "Delta",
    "LLM",
    "Logprob",
    "RequestOutput",
    "SamplingParams",
    "VtcoreError",
    "__version__",
    "ops",
]
HEAVY = ("numba", "llvmlite", "huggingface_hub", "numpy", "tokenizers", "jinja2", "gguf", "tqdm")


def test_the_public_names_are_these():
    assert sorted(vtcore.__all__) == PUBLIC


def test_every_public_name_is_there_and_documented():
    for name in PUBLIC:
        assert getattr(vtcore, name).__doc__
    assert set(PUBLIC) <= set(dir(vtcore))


def test_an_unknown_name_is_told_the_known_ones():
    with pytest.raises(AttributeError, match="no attribute 'Llm'; it has LLM"):
        _ = vtcore.Llm


@pytest.mark.parametrize("start", ["import vtcore", "import vtcore.cli; vtcore.cli.parser().format_help()"])
def test_what_is_heavy_is_imported_when_it_is_used(start):
    program = f"import sys; {start}; print([m for m in {HEAVY} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip() == "[]"
