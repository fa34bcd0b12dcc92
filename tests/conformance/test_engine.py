"""The goldens through the whole engine: its scheduler, its pages, its sampler."""

import numpy as np
import pytest

from tests.conformance.gated import ONE_EACH, name_of
from vtcore import LLM, SamplingParams
from vtcore.conformance.golden import probes


@pytest.mark.parametrize("golden", ONE_EACH, ids=name_of)
def test_tokens_and_logits(golden, tmp_path):
    small = {"block_size": 8, "max_num_batched_tokens": 32, "max_num_seqs": 3}
    prompts = [{"prompt_token_ids": c.prompt} for c in golden.cases]
    with LLM(golden.write_safetensors(tmp_path), max_model_len=golden.max_model_len or 128, **small) as llm:
        outputs = llm.generate(prompts, SamplingParams(temperature=0.0, max_tokens=32, ignore_eos=True))
        assert [list(o.outputs[0].token_ids) for o in outputs] == [c.tokens for c in golden.cases]
        for case in golden.cases[1:3]:
            logits = llm.logits(case.prompt + case.tokens[:-1])
            assert logits.dtype == np.float32
            np.testing.assert_allclose(probes(logits), case.probes, atol=golden.tolerance)
