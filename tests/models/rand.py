"""RAND: a Llama of two layers with weights from a fixed seed, as what files hold; and how to run a model without an engine."""

import json
from pathlib import Path

import numpy as np

from tests.writers import write_safetensors
from vtcore.dispatch import Dispatcher
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.kvcache.cache import Cache, Group, Paged
from vtcore.models.batch import Batch
from vtcore.models.load import load_model
from vtcore.tensor import of

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 300, "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
}  # fmt: skip
PAGE = 4


def tensors(layers=2, vocab=300, tied=False, seed=0):
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return (rng.standard_normal(shape) * 0.05).astype(np.float32)

    out = {"model.embed_tokens.weight": normal(vocab, 32), "model.norm.weight": 1 + normal(32)}
    for i in range(layers):
        base = f"model.layers.{i}."
        shapes = {"q": (32, 32), "k": (16, 32), "v": (16, 32), "o": (32, 32)}
        out |= {f"{base}self_attn.{n}_proj.weight": normal(*s) for n, s in shapes.items()}
        out |= {f"{base}mlp.{n}_proj.weight": normal(*s) for n, s in {"gate": (48, 32), "up": (48, 32), "down": (32, 48)}.items()}
        out |= {f"{base}{n}_layernorm.weight": 1 + normal(32) for n in ("input", "post_attention")}
    return out if tied else out | {"lm_head.weight": normal(vocab, 32)}


def write(directory: Path, config=None, weights=None):
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(CONFIG if config is None else config))
    write_safetensors(directory / "model.safetensors", tensors() if weights is None else weights)
    return open_checkpoint(directory)


def load(directory: Path, config=None, weights=None, **options):
    return load_model(write(directory, config, weights), **options)


def ints(a):
    return of(np.ascontiguousarray(np.asarray(a), np.int32))


def whole(cache, tokens, begin=0, prompt=None):
    """One request's tokens from `begin` on, in pages 1, 2, ...; all rows wanted."""
    index = np.arange(begin, len(tokens))
    pages = np.arange(1, 1 + -(-len(tokens) // PAGE))
    slots = np.where(index >= 0, pages[index // PAGE] * PAGE + index % PAGE, 0)
    groups = {n: Group(ints([pages]), ints(slots)) for n, s in cache.groups.items() if isinstance(s, Paged)}
    i = ints(index)
    prompt = ints([len(tokens) if prompt is None else prompt])
    return Batch(ints(tokens[begin:]), i, ints([0, len(index)]), ints([len(tokens)]), i, ints(np.arange(len(index))), groups, prompt)


def logits(model, tokens, cuts=(), **cache_options):
    """float32 [T, V], in as many forwards as there are cuts and one more."""
    cache, out = Cache(model.specs(), 24, PAGE, **cache_options), []
    with Dispatcher():
        for begin, end in zip([0, *cuts], [*cuts, len(tokens)], strict=True):
            out.append(model(whole(cache, tokens[:end], begin, len(tokens)), cache).logits.numpy().copy())
    return np.concatenate(out)
