"""Two real models of the catalogue, against what transformers says of their files in float32: every token, and the probability of each.

The files come as wheels from the package index and stay in the cache."""

import json
from pathlib import Path

import numpy as np
import pytest

from vtcore import LLM, SamplingParams

RECORDS = [json.loads(p.read_text()) for p in sorted((Path(__file__).parents[1] / "data" / "real").glob("*.json"))]
LONGEST = 256
GREEDY = {"temperature": 0.0, "ignore_eos": True}


@pytest.fixture(scope="module", params=RECORDS, ids=lambda r: r["model"])
def real(request):
    with LLM(request.param["model"], max_model_len=LONGEST) as llm:
        yield request.param, llm


def answers(llm, cases, count):
    outputs = llm.generate([{"prompt_token_ids": c["prompt_ids"]} for c in cases], SamplingParams(max_tokens=count, **GREEDY))
    return [list(o.outputs[0].token_ids) for o in outputs]


def test_every_token(real):
    record, llm = real
    cases = record["cases"]
    assert [len(c["tokens"]) for c in cases] == [64] * 4
    assert answers(llm, cases, 64) == [c["tokens"] for c in cases]
    assert answers(llm, cases[2:3], 16) == [cases[2]["tokens"][:16]]


def test_the_probability_of_every_token(real):
    record, llm = real
    for case in record["cases"]:
        ids = case["prompt_ids"] + case["tokens"]
        logits = llm.logits(ids[:-1]).astype(np.float64)
        logprobs = logits - np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1, keepdims=True)) - logits.max(-1, keepdims=True)
        got = logprobs[np.arange(len(ids) - 1), ids[1:]]
        np.testing.assert_allclose(got, case["prompt_logprobs"] + case["logprobs"], atol=1e-3)
        top = case["last_prompt_top5"]
        np.testing.assert_allclose(logits[len(case["prompt_ids"]) - 1, top["ids"]], top["logits"], atol=2e-3)


def test_the_text_on_both_sides(real):
    record, llm = real
    [kind] = {case["kind"] for case in record["cases"]}
    ask = llm.chat if kind == "chat" else llm.generate
    outputs = ask([case["input"] for case in record["cases"]], SamplingParams(temperature=0.0, max_tokens=64))
    for case, output in zip(record["cases"], outputs, strict=True):
        assert output.prompt == case["rendered"]
        assert output.prompt_token_ids == case["prompt_ids"]
        assert output.outputs[0].text == case["text_until_eos"]


def test_every_vector_of_the_tokenizer(real):
    record, llm = real
    for vector in record["tokenizer_vectors"]:
        assert llm.tokenizer.encode(vector["text"], add_special_tokens=False) == vector["ids"]
        assert llm.tokenizer.encode(vector["text"]) == vector["ids_default"]


def test_the_definitions_say_the_same():
    """Without any kernel, a few tokens: exact numerics are those of the definitions."""
    record = next(r for r in RECORDS if r["model"] == "smollm2-135m")
    case = min(record["cases"], key=lambda c: len(c["prompt_ids"]))
    with LLM(record["model"], max_model_len=64, providers="reference") as llm:
        assert answers(llm, [case], 4) == [case["tokens"][:4]]
        assert {line.provider for line in llm.report().ran} == {"reference"}
