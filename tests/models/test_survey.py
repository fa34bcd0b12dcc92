"""What is known of a model before its weights are read, and what reads them."""

import numpy as np
import pytest

from tests.models.rand import CONFIG, load, logits, tensors
from vtcore.kvcache.cache import Cache
from vtcore.memory import HOST
from vtcore.models.decoder import Decoder
from vtcore.models.survey import tiny_batch
from vtcore.op import RUNNER
from vtcore.ops import embedding, linear, rms_norm
from vtcore.providers.null import Null


def test_each_weight_has_the_op_that_reads_it(tmp_path):
    model = load(tmp_path)
    uses = {(u.layer, u.name, u.part): u.op for u in model.survey.uses}
    assert uses[None, "embed_tokens", "weight"] is embedding
    assert uses[0, "q_proj", "weight"] is uses[None, "lm_head", "weight"] is linear
    assert uses[1, "input_layernorm", "weight"] is uses[None, "norm", "weight"] is rms_norm
    assert len(uses) == len(tensors())


def test_uses_give_the_weights_themselves(tmp_path):
    model = load(tmp_path)
    seen = [(op.name, t) for op, t in model.uses()]
    assert len(seen) == len(tensors())
    assert any(t is model.layers[1].down_proj.weight and name == "linear" for name, t in seen)


def test_a_tied_embedding_is_one_array_with_two_uses(tmp_path):
    model = load(tmp_path, CONFIG | {"tie_word_embeddings": True}, tensors(tied=True))
    both = [(op, t) for op, t in model.uses() if t is model.top_weights.embed_tokens.weight]
    assert [op for op, _ in both] == [embedding, linear]
    assert model.survey.bytes_by_format["float32"] == sum(a.nbytes for a in tensors(tied=True).values())


def test_bytes_by_format(tmp_path):
    half = {n: a.astype(np.float16) if a.ndim == 2 else a for n, a in tensors().items()}
    survey = load(tmp_path, weights=half).survey
    assert survey.bytes_by_format == {"float16": sum(a.nbytes for a in half.values() if a.ndim == 2), "float32": 5 * 32 * 4}
    assert survey.weight_bytes == sum(a.nbytes for a in half.values())


def test_the_workspace_is_that_of_the_widest_moment(tmp_path):
    """x and its sum after attention, gate, up and their product: 2 * 32 + 3 * 48 floats; and the angles, 2 * 4."""
    least = 4 * (2 * 32 + 3 * 48 + 2 * 4)
    assert least <= load(tmp_path).survey.token_bytes <= 2 * least


def test_a_survey_reads_no_weight_and_keeps_no_memory(tmp_path):
    before = HOST.live
    model = load(tmp_path)
    assert HOST.live == before
    assert "embed_tokens" not in model.top_weights.__dict__


def shapes(model: Decoder, batch, cache):
    """Names of ops and shapes of their results, without arithmetic."""
    seen, null = [], Null("null")

    def run(op, call):
        out = null.accept(op, call)(**call)
        seen.append((op.name, [t.shape for t in (out if isinstance(out, tuple) else (out,)) if t is not None]))
        return out

    token = RUNNER.set(run)
    try:
        out = model(batch, cache)
    finally:
        RUNNER.reset(token)
    return seen, out


def test_a_forward_on_nothing(tmp_path):
    model = load(tmp_path)
    cache = Cache(model.specs(), 2, 4)
    seen, out = shapes(model, tiny_batch(cache), cache)
    assert out.logits.shape == (1, 300)
    assert out.hidden.shape == (6, 32)
    assert [n for n, _ in seen].count("paged_attention") == 2


@pytest.mark.parametrize("cuts", [(1,), (4,), (3, 4, 7)])
def test_chunks_change_no_bit(tmp_path, cuts):
    model = load(tmp_path)
    prompt = list(range(5, 14))
    np.testing.assert_array_equal(logits(model, prompt, cuts), logits(model, prompt))


def test_how_pages_lie_changes_no_bit(tmp_path):
    model, prompt = load(tmp_path), list(range(9))
    turned = logits(model, prompt, layout=lambda name, shape: {"k": (0, 2, 3, 1), "v": (0, 2, 1, 3)}[name])
    np.testing.assert_array_equal(turned, logits(model, prompt))
