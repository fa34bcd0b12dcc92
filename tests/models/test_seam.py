"""What the seam promises to whoever writes a model: registration, names, fixes, attachments."""

import sys
from dataclasses import replace
from importlib.metadata import EntryPoint

import numpy as np
import pytest

from tests.models.rand import CONFIG, ints, load, logits, tensors, whole
from vtcore.dispatch import Dispatcher
from vtcore.errors import CheckpointError, OpError, UnknownArchitectureError
from vtcore.kvcache.cache import Cache
from vtcore.models import registry
from vtcore.models.batch import Inserted
from vtcore.models.decoder import Stored, flat, heads
from vtcore.models.llama import Llama
from vtcore.models.names import Dialect, Rows, Values, is_outline, outline
from vtcore.models.registry import ARCHITECTURES, GGUF_ARCHITECTURES, architecture, find, load_all
from vtcore.models.weights import Param, Weights
from vtcore.quant.blocks import FORMATS, Blocks
from vtcore.tensor import of

PROMPT = [3, 1, 4, 1, 5]
OUTSIDE = '''
from vtcore.models.decoder import architecture
from vtcore.models.llama import Llama
from vtcore.ops import scale


@architecture("OutsideForCausalLM")
class Outside(Llama):
    """Llama with embeddings twice as large."""

    def embed_tokens(self, tokens, step):
        return scale(super().embed_tokens(tokens, step), 2.0)
'''


@pytest.fixture
def entry(tmp_path, monkeypatch):
    """An installed package that declares a module in the group vtcore.models."""

    def install(source):
        (tmp_path / "outside_models.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "outside_models", raising=False)
        point = EntryPoint("outside", "outside_models", "vtcore.models")
        monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == "vtcore.models" else [])
        load_all.cache_clear()

    yield install
    load_all.cache_clear()
    ARCHITECTURES.pop("OutsideForCausalLM", None)


def test_a_model_of_another_package(entry, tmp_path):
    entry(OUTSIDE)
    model = load(tmp_path / "m", CONFIG | {"architectures": ["OutsideForCausalLM"]})
    doubled = tensors() | {"model.embed_tokens.weight": tensors()["model.embed_tokens.weight"] * 2}
    np.testing.assert_array_equal(logits(model, PROMPT), logits(load(tmp_path / "d", weights=doubled), PROMPT))


def test_a_package_that_fails_says_so_where_it_is_missed(entry):
    entry("import nothing_of_that_name")
    assert find(["LlamaForCausalLM"], ARCHITECTURES) is Llama
    with pytest.raises(UnknownArchitectureError, match=r"entry point 'outside'.*No module named 'nothing_of_that_name'"):
        find(["OutsideForCausalLM"], ARCHITECTURES)


def test_a_name_is_one_class_s():
    with pytest.raises(ValueError, match=r"'LlamaForCausalLM' is registered twice: by vtcore\.models\.llama"):
        architecture("LlamaForCausalLM")(type("Other", (Llama,), {}))


def test_both_tables_hold_the_first_ten():
    load_all()
    assert ARCHITECTURES["InternLM3ForCausalLM"] is ARCHITECTURES["LlamaForCausalLM"] is Llama
    assert {"llama", "qwen2", "qwen3", "smollm3", "phi3", "granite", "gemma", "gemma2", "gemma3"} <= set(GGUF_ARCHITECTURES)


def test_rows_that_are_neighbours_are_a_view():
    a = np.arange(24, dtype=np.float32).reshape(6, 4)
    part = Rows(lambda rows, c: rows[2:5])(a, None)
    assert np.shares_memory(part, a)
    np.testing.assert_array_equal(part, a[2:5])
    np.testing.assert_array_equal(Rows(lambda rows, c: rows[::-1])(a, None), a[::-1])
    stack = a.reshape(2, 3, 4)
    np.testing.assert_array_equal(Rows(lambda rows, c: rows[[2, 0]], axis=1)(stack, None), stack[:, [2, 0]])


def test_rows_of_blocks_stay_blocks_and_values_do_not():
    q8 = FORMATS["Q8_0"]
    data = np.random.default_rng(0).integers(0, 50, (4, q8.nbytes), np.uint8)
    blocks = Blocks(data, q8)
    turned = Rows(lambda rows, c: rows[[3, 1]])(blocks, None)
    assert turned.dtype is q8
    np.testing.assert_array_equal(turned.dequantize(), blocks.dequantize()[[3, 1]])
    changed = Values(lambda a, c: a + 1)(blocks, None)
    np.testing.assert_array_equal(changed, blocks.dequantize() + 1)


def test_an_outline_has_the_shape_that_fixes_would_give():
    q8, reorder = FORMATS["Q8_0"], Rows(lambda rows, c: rows[::-1])
    for dtype in (np.dtype(np.float32), q8):
        huge = outline((1 << 20, 1 << 20), dtype)  # nothing of it exists
        assert is_outline(huge)
        assert reorder(huge, None).shape == (1 << 20, 1 << 20)
        assert is_outline(Rows(lambda rows, c: rows[: 1 << 10])(huge, None))
    assert not is_outline(np.zeros((2, 2)))


class One:
    """A tensor of a checkpoint."""

    def __init__(self, value):
        self.value, self.shape, self.dtype = value, value.shape, value.dtype

    def load(self):
        return self.value


def read(tensors, stored):
    weights = Weights({n: One(a) for n, a in tensors.items()})
    return weights, weights.read("w", stored, "a.", None)


def test_a_quantised_tensor_whose_values_change_is_noted():
    blocks = Blocks(np.zeros((2, 34), np.uint8), FORMATS["Q8_0"])
    weights, p = read({"a.b.weight": blocks}, Stored("b", Values(lambda a, c: a + 1)))
    np.testing.assert_array_equal(p.weight.numpy(), np.ones((2, 32), np.float32))
    assert list(weights.notes) == ["a.b.weight is Q8_0 in the checkpoint and float32 in memory, since its values are changed at load"]


def test_a_bias_is_fixed_only_where_that_is_said():
    a = {"a.b.weight": np.eye(2, dtype=np.float32), "a.b.bias": np.array([1, 2], np.float32)}
    turn = Rows(lambda rows, c: rows[::-1])
    assert read(a, Stored("b", turn))[1].bias.numpy().tolist() == [1, 2]
    assert read(a, Stored("b", turn, both=True))[1].bias.numpy().tolist() == [2, 1]
    assert read(a, Stored("b.bias"))[1].numpy().tolist() == [1, 2]


def test_a_fix_that_does_not_fit_names_the_tensor():
    with pytest.raises(CheckpointError, match=r"a\.b\.weight \[2, 2\] \(float32\) can't be brought into the form that the forward reads"):
        read({"a.b.weight": np.eye(2, dtype=np.float32)}, Stored("b", Rows(lambda rows, c: rows.reshape(3, -1)[0])))


def test_a_dialect_moves_paths_and_drops_what_was_done():
    plus, turn = Values(lambda a, c: a + 1), Rows(lambda rows, c: rows[::-1])
    table = {"q": "attn.q", "n": Stored("norm", plus)}
    d = Dialect({}, table, "", {"attn.q": "wq", "norm": "ln"}, {"q": turn}, frozenset({plus}))
    assert d.find("q", table) == Stored("wq", turn, both=True)
    assert d.find("n", table) == Stored("ln")
    assert d.find("other", table) == Stored("other")


def test_what_is_attached_stands_in_for_a_weight(tmp_path):
    def attach(named, name, value):
        return Param(of(value.weight.numpy() * 2)) if name == "down_proj" else value

    plain = load(tmp_path / "a")
    model = Llama(plain.config, plain.weights, attach=(attach,))
    twice = tensors() | {n: a * 2 for n, a in tensors().items() if "down_proj" in n}
    np.testing.assert_array_equal(logits(model, PROMPT), logits(load(tmp_path / "b", weights=twice), PROMPT))


def test_heads_are_as_many_as_the_weight_gives():
    x = of(np.zeros((3, 24), np.float32))
    assert heads(x, 8).shape == (3, 3, 8)
    assert flat(heads(x, 8)).shape == (3, 24)
    with pytest.raises(OpError, match="24 channels can't be cut into heads of 7"):
        heads(x, 7)


def test_what_a_layer_gives_can_be_kept(tmp_path):
    model = load(tmp_path)
    cache = Cache(model.specs(), 8, 4)
    with Dispatcher():
        out = model(replace(whole(cache, PROMPT), keep=frozenset({0})), cache)
        assert set(out.kept) == {0}
        assert out.kept[0].shape == (5, 32)
        again = model.head(model.finish(model.layer(model.layers[1], out.kept[0], model.begin(whole(cache, PROMPT), cache))))
    np.testing.assert_array_equal(again.numpy(), out.logits.numpy())


def test_images_stand_in_place_of_embeddings(tmp_path):
    model = load(tmp_path)
    table = tensors()["model.embed_tokens.weight"]
    cache = Cache(model.specs(), 8, 4)
    with Dispatcher():
        batch = replace(whole(cache, [3, 299, 299, 1, 5]), images=Inserted(ints([1, 2]), of(table[[1, 4]].copy())))
        got = model(batch, cache).logits.numpy()
    np.testing.assert_array_equal(got, logits(model, PROMPT))
