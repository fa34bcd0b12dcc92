"""Under each instruction set that this machine has: golden answers, and the same bits however a request is run."""

from functools import cache

import numpy as np
import pytest

from tests.gguf_converter import Type, convert
from vtcore.assembly import assemble
from vtcore.conformance.golden import Golden, goldens
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.options import Options
from vtcore.providers.portable.isa import VARIABLE, available, host
from vtcore.sampling_params import SamplingParams

WAYS = [(threads, capture) for threads in (1, 2) for capture in (False, True)]


@cache
def golden() -> Golden:
    return next(g for g in goldens(["LlamaForCausalLM"]) if g.name == "llama")


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, object]:
    """The golden's checkpoint dense, and with weights in blocks of 8 bits."""
    folder = tmp_path_factory.mktemp("llama")
    return {"dense": golden().write_safetensors(folder / "dense"), "q8_0": convert(golden(), folder / "q8_0.gguf", Type.Q8_0)}


def answers(path, together: bool, **options) -> list[tuple[list[int], bytes]]:
    """Tokens and logits of the golden's prompts, all at once or one by one, twice each: the second time steps are replayed."""
    engine = assemble(open_checkpoint(path), Options(providers="portable", max_num_batched_tokens=24, **options), None).engine
    out = []
    for group in [golden().cases] if together else [[c] for c in golden().cases]:
        for _ in range(2):
            greedy = [engine.submit(c.prompt, SamplingParams(temperature=0, max_tokens=len(c.tokens), ignore_eos=True)) for c in group]
            scored = [engine.submit(c.prompt, SamplingParams(temperature=0, max_tokens=0), keep_logits=True) for c in group]
            while not engine.idle:
                engine.step()
        out += [(g.requests[0].output_token_ids, np.concatenate(s.logits).tobytes()) for g, s in zip(greedy, scored, strict=True)]
    return out


@pytest.mark.parametrize("isa", available(host()))
def test_tokens_are_the_golden_ones(isa, files, monkeypatch):
    monkeypatch.setenv(VARIABLE, isa)
    assert [tokens for tokens, _ in answers(files["dense"], True)] == [c.tokens for c in golden().cases]


@pytest.mark.parametrize("isa", available(host()))
@pytest.mark.parametrize(("file", "numerics"), [("dense", "exact"), ("q8_0", "exact"), ("q8_0", "fast")])
def test_bits_do_not_depend_on_threads_recording_or_company(isa, file, numerics, files, monkeypatch):
    monkeypatch.setenv(VARIABLE, isa)
    wanted = answers(files[file], False, numerics=numerics, threads=1, capture=False)
    for threads, capture in WAYS:
        assert answers(files[file], True, numerics=numerics, threads=threads, capture=capture) == wanted
