"""The defaults that docs/scheduling.md tells are those of the engine, however it is reached."""

import inspect
import re
from dataclasses import fields
from pathlib import Path

from vtcore.llm import LLM
from vtcore.options import Options

PAGE = (Path(__file__).parents[2] / "docs" / "scheduling.md").read_text().split("\n## ")[0]
DEFAULTS = {f.name: f.default for f in fields(Options)}


def test_the_table_tells_the_engines_defaults():
    told = dict(re.findall(r"^\| `(\w+)` \| `?(\d+|True|False|[a-z]\w*)`?(?:, off)? \| ", PAGE, re.MULTILINE))
    assert (
        {"max_num_seqs", "max_num_batched_tokens", "block_size", "scheduling_policy", "async_scheduling"} <= told.keys() <= DEFAULTS.keys()
    )
    unset = {"off", "block_size", "lru"}  # of None: what it comes to
    assert {n: v for n, v in told.items() if v not in unset} == {n: str(DEFAULTS[n]) for n, v in told.items() if v not in unset}


def test_llm_has_the_same_defaults():
    named = {n: p.default for n, p in inspect.signature(LLM).parameters.items() if n in DEFAULTS}
    assert len(named) == 11
    assert named == {n: DEFAULTS[n] for n in named}
