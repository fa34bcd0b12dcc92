"""transformers as the oracle: one thread, eager attention, float32 unless a recipe says otherwise."""

from __future__ import annotations

import contextlib
import copy
import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.numpy import load_file, save_file

from goldens.recipe import Array, Recipe

torch.set_num_threads(1)
torch.set_grad_enabled(False)
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
STEPS = 32


def template(recipe: Recipe) -> tuple[dict[str, Any], dict[str, Array]]:
    """config.json and the tensors as transformers writes them for a network that it filled itself."""
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        model = _class(recipe.model)(_class(recipe.config)(**copy.deepcopy(dict(recipe.numbers)))).float()
        model.save_pretrained(folder)
        files = Path(folder).glob("*.safetensors")
        return json.loads((Path(folder) / "config.json").read_text()), {n: a for f in files for n, a in load_file(f).items()}


def fresh(recipe: Recipe) -> Any:
    """The model with weights of its own."""
    config = _class(recipe.config)(**copy.deepcopy(dict(recipe.numbers)))
    config._attn_implementation = "eager"
    model = _class(recipe.model)(config).float()
    with contextlib.suppress(ValueError, AttributeError):
        model.set_experts_implementation("eager")
    return model.eval()


def load(recipe: Recipe, config: Mapping[str, Any], weights: Mapping[str, Array]) -> Any:
    """The model as anybody would load this checkpoint. Raises where names or shapes don't fit."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps({**config, **recipe.oracle}))
        save_file(dict(weights), Path(folder) / "model.safetensors", metadata={"format": "pt"})
        dtype = getattr(torch, recipe.dtype)
        options = {"dtype": dtype, "attn_implementation": "eager", "output_loading_info": True}
        model, said = _class(recipe.model).from_pretrained(folder, **options)
    missing = [n for n in said["missing_keys"] if not recipe.drop or not re.search(recipe.drop, n)]
    if missing or said["unexpected_keys"] or said["mismatched_keys"]:
        raise ValueError(f"{recipe.name}: missing {missing}, unexpected {said['unexpected_keys']}, mismatched {said['mismatched_keys']}")
    with contextlib.suppress(ValueError, AttributeError):
        model.set_experts_implementation("eager")
    return model.eval()


def forward(model: Any, tokens: list[int]) -> Array:
    """float32 [T, V]: the logits of every position, without a cache."""
    forget(model)
    ids = torch.tensor([tokens])
    logits: Array = model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False).logits[0].float().numpy()
    return logits


def greedy(model: Any, prompt: list[int], steps: int = STEPS) -> tuple[list[int], Array]:
    """Tokens and the logits [steps, V] that they were chosen from, with a cache; the end of text is a token like any other."""
    forget(model)
    ids = torch.tensor([prompt])
    how = {"max_new_tokens": steps, "do_sample": False, "eos_token_id": -1, "pad_token_id": 0, "use_cache": True}
    out = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), **how, return_dict_in_generate=True, output_logits=True)
    return out.sequences[0, len(prompt) :].tolist(), torch.cat(out.logits).float().numpy()


def forget(model: Any) -> None:
    """Dynamic rope remembers the longest sequence of the past until a short one comes."""
    model(input_ids=torch.tensor([[0]]), use_cache=False)


def older_spelling(config: Mapping[str, Any]) -> dict[str, Any] | None:
    """What to change for config.json as it was before transformers 5; None where that doesn't load to the same rope."""
    ropes, kind = config.get("rope_parameters"), config["model_type"]
    if not isinstance(ropes, dict):
        return None
    added: dict[str, Any] = {"torch_dtype": config["dtype"]}
    if all(isinstance(r, dict) for r in ropes.values()):
        if kind != "gemma3_text":
            return None
        added["rope_local_base_freq"] = ropes["sliding_attention"]["rope_theta"]
        ropes = ropes["full_attention"]
    ropes = dict(ropes)
    added |= {n: ropes.pop(n) for n in ("rope_theta", "partial_rotary_factor") if n in ropes}
    added["rope_scaling"] = None if ropes == {"rope_type": "default"} else ropes
    change = {"without": ["rope_parameters", "dtype"], "with": added}
    old = {n: v for n, v in config.items() if n not in change["without"]} | added
    with contextlib.suppress(Exception):
        if _rope(old) == _rope(config):
            return change
    return None


def _rope(config: Mapping[str, Any]) -> Any:
    return transformers.AutoConfig.for_model(**copy.deepcopy(dict(config))).rope_parameters


def _class(name: str) -> Any:
    return getattr(transformers, name)


def versions() -> Iterator[tuple[str, str]]:
    """Of what answered."""
    yield "transformers", transformers.__version__
    yield "torch", torch.__version__.partition("+")[0]
