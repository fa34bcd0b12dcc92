import re

import numpy as np
import pytest

from vtcore import LLM
from vtcore.cli import main
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.formats.raw import RawTensor


@pytest.fixture
def explained(chat_model, capsys):
    def explain(*options):
        code = main(["explain", chat_model, *options])
        return code, *capsys.readouterr()

    return explain


def test_it_says_what_the_model_is(explained, chat_model):
    code, out, _ = explained()
    assert code == 0
    for part in (chat_model, "Llama, vtcore.models.llama", "2 layers, hidden 32, 4 heads of 8 over 2", "context       128 tokens"):
        assert part in out
    count = len(open_checkpoint(chat_model).tensors)
    assert f"{count}  float32" in out


@pytest.mark.feature("Automatic memory sizing (no hand-tuned budget)")
def test_memory_is_what_loading_would_plan(explained, chat_model):
    with LLM(chat_model, max_model_len=64) as llm:
        plan = str(llm.memory_plan).splitlines()
    assert "\n".join(plan[:-1]) in explained("--max-model-len", "64")[1]


def test_every_op_of_a_forward_is_placed_as_it_would_run(explained, chat_model):
    with LLM(chat_model) as llm:
        llm.logits(np.arange(16))
        ran = [row for row in llm.report().ran if row.op not in ("log_softmax", "softmax", "argmax")]
    out = explained()[1]
    assert ran
    for row in ran:
        assert f"{row.calls:8d}  {row.op:20s} {row.provider}" in out


def test_declines_are_given_with_reasons(explained, tmp_path):
    path = tmp_path / "none.py"
    path.write_text("from vtcore.provider import Provider\nprovider = Provider('none')\n")
    out = explained("--providers", str(path))[1]
    assert "paged_attention      reference" in out
    assert "paged_attention      not none: no kernel" in out


def test_what_crosses_between_memories_is_told_with_its_bytes_and_what_only_is_seen_without(explained):
    out = explained("--providers", "opencl")[1].partition("copied between memories")[2]
    assert re.search(r"linear +host->opencl +\d+ in shared memory, then 0\n", out)
    assert re.search(r"rope_angles +host->opencl +\d+ of [\d.]+ KiB, then 1 of [\d.]+ KiB\n", out)


def test_no_weight_is_read(explained, monkeypatch):
    def load(self):
        raise AssertionError(f"{self.name} was read")

    monkeypatch.setattr(RawTensor, "load", load)
    assert explained()[0] == 0


def test_what_would_not_load_is_refused(explained):
    assert explained("--max-model-len", "4096")[0] == 2
    code, out, err = explained("--memory-limit", "10K")
    assert code == 1
    assert "2 layers" in out
    assert "memory_limit" in err
