"""On the portable provider nothing of a forward falls back, in any architecture: no decline, and no definition that runs."""

import pytest

from tests.conformance.gated import GOLDENS, ONE_EACH, golden_of, name_of
from tests.conformance.test_gguf import SAID, Type, convert
from tests.gguf_converter import gguf_name
from tests.gguf_states import WHOLE
from vtcore import LLM, SamplingParams
from vtcore.dispatch import REFERENCE
from vtcore.rounding import NAME, RULES

TOKENS = 5  # one of the prompt, one step op by op, one recorded, two replayed
every = pytest.mark.parametrize("golden", GOLDENS, ids=name_of)


def ran(golden, path, **options):
    """The first tokens of the golden's second prompt; which providers ran which ops."""
    case, window = golden.cases[1], golden.max_model_len or min(128, golden.config.get("max_position_embeddings", 128))
    with LLM(path, max_model_len=window, providers="portable", strict=True, threads=1, **options) as llm:
        params = SamplingParams(temperature=0.0, max_tokens=TOKENS, ignore_eos=True)
        [output] = llm.generate([{"prompt_token_ids": case.prompt}], params)
        report, plans = llm.report(), llm.engine.runner.plans._plans.values()
        assert any(plans) == (options.get("capture", True) and "dtype" not in options)
        assert not report.declined
        assert not report.copied
        return output.outputs[0].token_ids, {(r.op, r.provider): r.calls for r in report.ran}


@every
def test_no_op_falls_back(golden, tmp_path):
    path = golden.write_safetensors(tmp_path)
    tokens, where = ran(golden, path)
    assert {provider for _, provider in where} == {"portable"}
    assert (tokens, where) == ran(golden, path, capture=False)
    if golden.dtype == "float32":
        assert list(tokens) == golden.cases[1].tokens[:TOKENS]


@pytest.mark.parametrize(
    ("golden", "dtype"), [(g, "bfloat16") for g in GOLDENS] + [(g, "float16") for g in ONE_EACH[::8]], ids=lambda p: getattr(p, "name", p)
)
def test_no_op_falls_back_where_results_are_rounded(golden, dtype, tmp_path):
    """What is rounded inside of an op too is computed by the rounding's own rules, and the report says so."""
    _, where = ran(golden, golden.write_safetensors(tmp_path), dtype=dtype)
    assert {provider for _, provider in where} <= {"portable", NAME}
    assert {op for op, provider in where if provider == NAME} <= set(RULES)


@pytest.mark.parametrize("numerics", ["exact", "fast"])
@pytest.mark.parametrize("golden", [g for g in SAID if gguf_name(g) not in WHOLE], ids=name_of)
def test_no_op_falls_back_on_quantised_weights(golden, numerics, tmp_path):
    _, where = ran(golden, convert(golden, tmp_path / "model.gguf", Type.Q8_0), numerics=numerics)
    assert {provider for _, provider in where} == {"portable"}
    assert any(op.endswith("_q8") for op, _ in where) == (numerics == "fast")


def test_a_fallback_would_be_seen(tmp_path):
    """What these tests look at says it: an op whose kernel is gone is declined, and runs by its definition."""
    golden = golden_of("llama")
    path = golden.write_safetensors(tmp_path)
    with LLM(path, providers="portable", max_model_len=128) as llm:
        del llm._dispatcher.providers[0].kernels["silu_mul"]
        llm.generate([{"prompt_token_ids": [5, 6]}], SamplingParams(temperature=0.0, max_tokens=TOKENS))
        assert any(d.op == "silu_mul" for d in llm.report().declined)
        assert any(r.op == "silu_mul" and r.provider == REFERENCE for r in llm.report().ran)
