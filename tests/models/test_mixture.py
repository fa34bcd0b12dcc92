"""Mixtures of experts: what is wrong with a checkpoint is said, and what is right is not copied."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from vtcore.conformance.golden import FOLDER, Golden
from vtcore.errors import CheckpointError, ConfigError, TensorNamesError
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.models.load import load_model


def changed(name, path, tensors=None, **config):
    """A golden's checkpoint with other numbers and other tensors."""
    directory = Golden.load(FOLDER / f"{name}.json").write_safetensors(path)
    file = directory / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | config))
    stored = load_file(directory / "model.safetensors")
    if tensors:
        save_file(tensors(stored), directory / "model.safetensors")
    return open_checkpoint(directory)


def without(word):
    return lambda stored: {n: a for n, a in stored.items() if word not in n}


def test_experts_that_are_missing_are_named(tmp_path):
    with pytest.raises(TensorNamesError) as raised:
        load_model(changed("mixtral", tmp_path, without("layers.1.block_sparse_moe.experts.3.w1")))
    assert "1 missing: model.layers.1.block_sparse_moe.experts.3.w1.weight" in str(raised.value)


def test_fused_experts_that_are_missing_are_named(tmp_path):
    with pytest.raises(TensorNamesError, match=r"layers\.2\.block_sparse_moe\.output_linear"):
        load_model(changed("granite_moe", tmp_path, without("layers.2.block_sparse_moe.output_linear")))


def test_more_experts_than_the_config_says_are_named(tmp_path):
    with pytest.raises(TensorNamesError, match=r"does not read: .*experts\.7\.w1\.weight"):
        load_model(changed("mixtral", tmp_path, num_local_experts=7))


def test_a_stack_of_another_number_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="the first of 7: the config's number of experts"):
        load_model(changed("granite_moe", tmp_path, num_local_experts=7))


def stored(word, change):
    return lambda tensors: {n: change(v) if word in n else v for n, v in tensors.items()}


@pytest.mark.parametrize(
    ("name", "word", "change", "words"),
    [
        ("mixtral", "moe.gate.", lambda v: np.concatenate([v, v]), r"gate\.weight \[16, 64\]: the config's num_local_experts is 8"),
        ("deepseek_v4", "tid2eid", lambda v: v[:10], "the config's vocab_size is 320 and num_experts_per_tok 2"),
        ("qwen3_next", "A_log", lambda v: v[:1], "the config's linear_num_value_heads is 4"),
    ],
)
def test_a_table_that_would_be_too_long_or_too_short_in_silence(name, word, change, words, tmp_path):
    with pytest.raises(CheckpointError, match=words):
        load_model(changed(name, tmp_path, stored(word, change)))


@pytest.mark.parametrize(
    ("number", "words"), [(8, "from 8 to 8; they must be from 0 to 7"), (-1, "from -1 to -1"), (2**32, "that int32 holds")]
)
def test_experts_by_token_that_there_are_not(number, words, tmp_path):
    checkpoint = changed("deepseek_v4", tmp_path, stored("tid2eid", lambda v: np.full(v.shape, number, np.int64)))
    with pytest.raises(CheckpointError, match=words):
        list(load_model(checkpoint).uses())


@pytest.mark.parametrize("count", [10**6, 2**31 - 1])
def test_an_absurd_number_of_experts_takes_no_time(count, tmp_path):
    with pytest.raises(TensorNamesError, match=r"experts\.0\.w1"):
        load_model(changed("mixtral", tmp_path, num_local_experts=count))


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"num_experts_per_tok": 9}, "num_experts_per_tok is 9; it must not be over num_local_experts, 8"),
        ({"num_local_experts": -1}, "num_local_experts is -1"),
        ({"num_experts_per_tok": 1.5}, "num_experts_per_tok is 1.5"),
        ({"num_local_experts": None}, "no 'num_experts or num_local_experts"),
    ],
)
def test_numbers_of_experts_are_checked(config, words, tmp_path):
    with pytest.raises(ConfigError) as raised:
        load_model(changed("mixtral", tmp_path, **config))
    assert words in str(raised.value)


def test_scores_of_another_kind_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="scoring_func is 'softmax'; Glm4Moe is written for 'sigmoid' alone"):
        load_model(changed("glm4_moe", tmp_path, scoring_func="softmax"))


def test_whole_numbers_may_be_written_with_a_point(tmp_path):
    other = {"n_routed_experts": 8.0, "num_experts_per_tok": 2.0, "n_group": 1.0, "topk_group": 1.0, "num_nextn_predict_layers": 1.0}
    assert len(load_model(changed("glm4_moe", tmp_path, **other)).layers[1].experts_up) == 8


def test_experts_stay_where_the_file_has_them(tmp_path):
    """Views of the map: no expert is copied."""
    for name in ("mixtral", "granite_moe"):
        model = load_model(changed(name, tmp_path / name))
        for matrix in (*model.layers[1].experts_gate, *model.layers[1].experts_up):
            owner = matrix.numpy()
            while getattr(owner, "base", None) is not None and not isinstance(owner, np.memmap):
                owner = owner.base
            assert isinstance(owner, np.memmap)


def test_each_expert_is_prepared_for_its_op(tmp_path):
    model = load_model(changed("mixtral", tmp_path))
    assert sum(op.name == "experts" for op, _ in model.uses()) == 3 * 3 * 8


def test_layers_that_draft_are_left_out_and_named(tmp_path):
    def more(stored):
        return stored | {"model.layers.3.eh_proj.weight": np.zeros((64, 128), np.float32)}

    model = load_model(changed("glm4_moe", tmp_path, more))
    assert any("1 tensors of layers that draft tokens" in note for note in model.weights.notes)
    assert model.weights.unread() == [] or all("layers.3" not in n for n in model.weights.unread())


def test_a_number_for_each_layer_must_be_one_for_all(tmp_path):
    assert load_model(changed("hunyuan_moe", tmp_path / "a", moe_topk=[2, 2, 2])).config.num_experts_per_tok == 2
    with pytest.raises(ConfigError, match="moe_topk"):
        load_model(changed("hunyuan_moe", tmp_path / "b", moe_topk=[2, 1, 2]))
