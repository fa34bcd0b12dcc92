"""transformers in bfloat16 on torch's CPU kernels, with a loop of its own: less around the model than `generate` has."""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import torch
import transformers

from peers.serving import Answer


class Transformers:
    """A model in torch; of a GGUF file, its values as dense weights."""

    variants = ("sdpa", "eager")

    def __init__(self, args: argparse.Namespace) -> None:
        torch.set_num_threads(args.threads)
        path, options = args.model, dict[str, Any]()
        if path.endswith(".gguf"):
            path, options["gguf_file"] = os.path.split(path)
        load = transformers.AutoModelForCausalLM.from_pretrained
        self.model = load(path, dtype=torch.bfloat16, **options).eval()
        self.about = f"transformers {transformers.__version__}, torch {torch.__version__}, bfloat16, {torch.get_num_threads()} threads"

    def prefill(self, variant: str, tokens: int) -> Answer:
        self.model.set_attn_implementation(variant)
        ids = self._draw(1, tokens)
        start = time.perf_counter()
        self._forward(ids, None)
        return {"tokens": tokens, "seconds": time.perf_counter() - start}

    def decode(self, variant: str, batch: int, context: int, steps: int) -> Answer:
        self.model.set_attn_implementation(variant)
        last, cache = self._forward(self._draw(batch, context), None)
        start = time.perf_counter()
        for _ in range(steps):
            last, cache = self._forward(last, cache)
        return {"tokens": batch * steps, "seconds": time.perf_counter() - start}

    def _forward(self, ids: Any, cache: Any) -> tuple[Any, Any]:
        """The likeliest next tokens [batch, 1], and the cache."""
        with torch.inference_mode():
            out = self.model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
            return out.logits[:, -1].argmax(-1, keepdim=True), out.past_key_values

    def _draw(self, batch: int, tokens: int) -> Any:
        return torch.randint(0, self.model.config.vocab_size, (batch, tokens))


make = Transformers
