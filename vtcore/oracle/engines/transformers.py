"""transformers on torch: a directory of safetensors, or a GGUF file whose values it loads as dense weights."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vtcore.catalogue import resolve
from vtcore.errors import ArgumentError
from vtcore.oracle.followed import Followed, NotComparedError, likeliest, log_softmax, said_of
from vtcore.oracle.prompts import Encoded
from vtcore.oracle.recording import Answer, Array

DTYPES = ("float32", "bfloat16", "float16")


def _needed(name: str) -> Any:
    """A package of the extra `oracle`; loaded when it is first asked for, since it is large."""
    try:
        return importlib.import_module(name)
    except ImportError as wrong:
        raise ArgumentError(f"engine transformers needs {name}, which isn't installed here: pip install 'vtcore[oracle]'") from wrong


class TransformersEngine:
    """A model in torch with eager attention, which rounds where `vtcore/rounding.py` says. One prefill a comparison, a cache to record."""

    def __init__(self, model: str, *, dtype: str = "float32", threads: int | None = None, end_ids: tuple[int, ...] = ()) -> None:
        self.torch, self.transformers = _needed("torch"), _needed("transformers")
        self.dtype, self.end_ids = dtype, end_ids
        if threads is not None:
            self.torch.set_num_threads(threads)
        self.model = self._loaded(resolve(model)).eval()

    def describe(self) -> Mapping[str, str]:
        """Versions, and the dtype."""
        versions = {m.__name__: str(m.__version__) for m in (self.transformers, self.torch)}
        return {"name": "transformers", "dtype": self.dtype, "attention": "eager", **versions}

    def check(self, prompt: Encoded, max_tokens: int) -> None:
        """Nothing is known to fail before it is tried."""

    def answer(self, prompt: Encoded, max_tokens: int, count: int) -> Answer:
        """Greedy, with a cache, until an end token or `max_tokens`."""
        out = self._generate(prompt.prompt_token_ids, max_tokens)
        tokens = out.sequences[0, len(prompt.prompt_token_ids) :].tolist()
        rows = self.torch.cat(out.logits).float().numpy()
        ids, logprobs = chosen_first(tokens, *likeliest(log_softmax(rows), count))
        reason = "stop" if tokens[-1] in self.end_ids else "length"
        return Answer(
            prompt.name, prompt.text, prompt.special, tuple(prompt.prompt_token_ids), tuple(tokens), ids, logprobs, reason
        )  # fmt: skip

    def follow(self, answer: Answer) -> Followed:
        """One prefill of the prompt and the answer."""
        try:
            with self.torch.inference_mode(), _Layers(self.model) as layers:
                logits = self.model(self.torch.tensor([answer.forced]), use_cache=False).logits[0].float().numpy()
        except (IndexError, RuntimeError, ValueError) as wrong:
            raise NotComparedError(f"transformers failed: {type(wrong).__name__}: {wrong}") from wrong
        return Followed(said_of(logits[len(answer.prompt_token_ids) - 1 :], answer), "one prefill", hidden=layers.taken())

    def _loaded(self, path: Path) -> Any:
        load, options = self.transformers.AutoModelForCausalLM.from_pretrained, {"attn_implementation": "eager"}
        if path.is_file():
            path, options["gguf_file"] = path.parent, path.name
        try:
            return load(str(path), dtype=getattr(self.torch, self.dtype), **options)
        except (ImportError, KeyError, OSError, RuntimeError, ValueError) as wrong:
            raise ArgumentError(f"transformers can't load {path}: {type(wrong).__name__}: {wrong}") from wrong

    def close(self) -> None:
        """Let go of the model."""
        del self.model

    def _generate(self, ids: list[int], max_tokens: int) -> Any:
        options = {"do_sample": False, "output_logits": True, "return_dict_in_generate": True, "max_new_tokens": max_tokens}
        ends = list(self.end_ids) or None
        tensor = self.torch.tensor([ids])
        mask = self.torch.ones_like(tensor)
        with self.torch.inference_mode():
            return self.model.generate(tensor, attention_mask=mask, eos_token_id=ends, pad_token_id=(ends or [0])[0], **options)


class _Layers:
    """Notes the output of every layer of a torch model, before the final norm."""

    def __init__(self, model: Any) -> None:
        wanted = model.config.get_text_config().num_hidden_layers
        lists = [m for m in model.modules() if type(m).__name__ == "ModuleList" and len(m) == wanted]
        self.layers, self.kept = list(lists[0]) if lists else [], list[Array]()

    def __enter__(self) -> _Layers:
        self.hooks = [layer.register_forward_hook(self._note) for layer in self.layers]
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self.hooks:
            hook.remove()

    def _note(self, layer: Any, arguments: Any, out: Any) -> None:
        x = out[0] if isinstance(out, tuple) else out
        self.kept.append(x.reshape(-1, *x.shape[2:]).float().numpy().copy())

    def taken(self) -> Array | None:
        """float32 [layers, T, width], or None where the model has no such list."""
        return np.stack([k.reshape(len(k), -1) for k in self.kept]) if self.kept else None


def chosen_first(tokens: list[int], ids: Array, logprobs: Array) -> tuple[Array, Array]:
    """Of equals the engine may have taken another one than the lowest id: bring it to the front."""
    for row, token in enumerate(tokens):
        at = int(np.flatnonzero(ids[row] == token)[0]) if token in ids[row] else -1
        ids[row, 1:], ids[row, 0] = np.delete(ids[row], at), token
        first = logprobs[row, at]
        logprobs[row, 1:], logprobs[row, 0] = np.delete(logprobs[row], at), first
    return ids, logprobs
