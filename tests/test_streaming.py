"""A checkpoint that is larger than the memory it may have: its layers are read from the file in every step, and the tokens are the same."""

import json
import subprocess
import sys

import numpy as np
import pytest

from tests.conformance.gated import ONE_EACH, golden_of, name_of
from tests.conformance.test_rules import assert_same_bits
from tests.gguf_converter import Type, convert
from tests.patience import SECONDS
from vtcore import LLM, SamplingParams
from vtcore.conformance.gate import load
from vtcore.conformance.runner import Request, Runner
from vtcore.dispatch import Dispatcher
from vtcore.errors import OutOfMemoryError
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.models.load import load_model
from vtcore.providers import chain

HIDDEN, INNER, VOCAB = 768, 3072, 512
LAYERS, WRITTEN = 18, 2  # of the large one; those that do anything
SHAPES = {
    **dict.fromkeys(("input_layernorm", "post_attention_layernorm"), (HIDDEN,)),
    **{f"self_attn.{n}_proj": (HIDDEN, HIDDEN) for n in "qo"},
    **{f"self_attn.{n}_proj": (192, HIDDEN) for n in "kv"},
    **{f"mlp.{n}_proj": (INNER, HIDDEN) for n in ("gate", "up")},
    "mlp.down_proj": (HIDDEN, INNER),
}
SMALL = {"max_model_len": 64, "max_num_batched_tokens": 32, "max_num_seqs": 1}
CAP = 160 << 20  # bytes
CHILD = """
import json, resource, sys
import numpy as np
import vtcore
from vtcore.providers import find
find("portable").close()

def status():
    lines = (line.split() for line in open("/proc/self/status"))
    return {line[0][:-1]: int(line[1]) << 10 for line in lines if line[0] in ("VmHWM:", "VmRSS:", "VmData:")}

path, cap, options = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
before = status()
resource.setrlimit(resource.RLIMIT_DATA, (before["VmData"] + cap,) * 2)
with vtcore.LLM(path, threads=1, **options) as llm:
    out = llm.generate([[1, 2, 3, 4]], vtcore.SamplingParams(temperature=0.0, max_tokens=3, ignore_eos=True))
    told = {"tokens": list(out[0].outputs[0].token_ids), "peak": status()["VmHWM"] - before["VmRSS"], "notes": llm.notes}
print(json.dumps(told | {"plan": str(llm.memory_plan), "planned": llm.memory_plan.total}))
"""


def checkpoint(path, layers):
    """Random numbers in the first layers. The others are holes in the file: zeros, which add nothing, and are read as other numbers are."""
    config = {"architectures": ["LlamaForCausalLM"], "hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": layers}
    config |= {"num_attention_heads": 12, "num_key_value_heads": 3, "vocab_size": VOCAB, "max_position_embeddings": 128}
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": True}))
    named = {"model.embed_tokens": (VOCAB, HIDDEN), "model.norm": (HIDDEN,)}
    named |= {f"model.layers.{i}.{n}": s for i in range(layers) for n, s in SHAPES.items()}
    header, at = {}, 0
    for name, shape in named.items():
        nbytes = 4 * int(np.prod(shape))
        header[f"{name}.weight"] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + nbytes]}
        at += nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 64 + 56)
    rng = np.random.default_rng(0)
    with (path / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, shape in named.items():
            if "layers" not in name or int(name.split(".")[2]) < WRITTEN:
                values = rng.standard_normal(shape, np.float32) / np.float32(shape[-1] ** 0.5)
                file.write((values if len(shape) > 1 else 1 + values).tobytes())
        file.truncate(8 + len(text) + at)
    return path


def child(path, cap=CAP, **options):
    return subprocess.run(
        [sys.executable, "-c", CHILD, str(path), str(cap), json.dumps(SMALL | options)], capture_output=True, text=True, timeout=5 * SECONDS
    )


@pytest.fixture(scope="module")
def normally(tmp_path_factory):
    """What the layers that do anything give."""
    with LLM(checkpoint(tmp_path_factory.mktemp("small") / "model", WRITTEN), **SMALL) as llm:
        [output] = llm.generate([[1, 2, 3, 4]], SamplingParams(temperature=0.0, max_tokens=3, ignore_eos=True))
        assert not llm.memory_plan.streamed
        return list(output.outputs[0].token_ids)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc and RLIMIT_DATA as Linux has them")
def test_a_checkpoint_larger_than_memory_runs(tmp_path, normally):
    """The system gives no more than CAP beside what Python takes; file pages that are given back keep the rest under it too."""
    path = checkpoint(tmp_path / "model", LAYERS)
    size = (path / "model.safetensors").stat().st_size
    assert size > 3.5 * CAP
    done = child(path, memory_limit=CAP)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["tokens"] == normally
    assert told["planned"] <= CAP
    assert told["peak"] <= CAP
    assert "one at a time, in each step" in told["plan"]
    assert any("each step reads and repacks them layer by layer" in note for note in told["notes"])
    allowed = child(path, memory_limit=8 * size)
    assert allowed.returncode, "the cap holds: a run that keeps all weights breaks"
    assert "Error" in allowed.stderr


@pytest.mark.parametrize("golden", ONE_EACH, ids=name_of)
def test_not_a_bit_changes(golden):
    model, runs = load(golden), []
    for model.streamed in (False, True):
        request = Request(golden.cases[1].prompt, 3)
        Runner(model, Dispatcher(chain("portable")), 10**9).run([request])
        runs.append([request])
    assert_same_bits(*runs)
    assert not any(set(w.__dict__) - {"config", "index", *(n for n in w.__dict__ if n.startswith("_"))} for w in model.layers)


@pytest.mark.parametrize("numerics", ["exact", "fast"])
@pytest.mark.parametrize("name", ["llama", "qwen3_moe"])
def test_not_a_bit_of_quantised_weights_changes(name, numerics, tmp_path):
    golden, runs = golden_of(name), []
    model = load_model(open_checkpoint(convert(golden, tmp_path / "model.gguf", Type.Q8_0)), numerics=numerics)
    for model.streamed in (False, True):
        request = Request(golden.cases[1].prompt, 5)
        Runner(model, Dispatcher(chain("portable")), 10**9).run([request])
        runs.append([request])
    assert_same_bits(*runs)


def test_what_does_not_fit_layer_by_layer_either_is_refused(tmp_path):
    path = checkpoint(tmp_path / "model", WRITTEN)
    with pytest.raises(OutOfMemoryError, match=r"weights of the largest layer: one at a time, in each step, .* in all"):
        LLM(path, memory_limit="60MiB", **SMALL)


def test_weights_that_fit_stay(tmp_path):
    """Too large a workspace is no reason to read layer by layer."""
    path = checkpoint(tmp_path / "model", WRITTEN)
    with pytest.raises(OutOfMemoryError, match=r"MiB weights, as stored"):
        LLM(path, memory_limit="170MiB", max_model_len=128, max_num_batched_tokens=16384)
