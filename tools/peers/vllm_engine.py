"""vLLM's CPU build. It gives no step by itself, so decode is what more tokens take longer than one."""

from __future__ import annotations

import argparse
import os
import random
import time

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")  # GiB

import vllm

from peers.serving import Answer

LONGEST, SEQUENCES = 1024, 16


class Vllm:
    """A model in vLLM, bfloat16, without a cache of prefixes; compiled, where a compiler is there."""

    variants = ("",)

    def __init__(self, args: argparse.Namespace) -> None:
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", f"0-{args.threads - 1}")
        options = {"dtype": "bfloat16", "max_model_len": LONGEST, "max_num_seqs": SEQUENCES, "enable_prefix_caching": False}
        options |= {"skip_tokenizer_init": True}
        try:
            self.llm, how = vllm.LLM(args.model, **options), "compiled"
        except Exception as wrong:  # torch.compile fails in many ways
            self.llm, how = vllm.LLM(args.model, enforce_eager=True, **options), f"eager, since compiling fails: {type(wrong).__name__}"
        self.vocab = self.llm.llm_engine.model_config.get_vocab_size()
        self.about = f"vllm {vllm.__version__}, bfloat16, {how}"

    def prefill(self, variant: str, tokens: int) -> Answer:
        return {"tokens": tokens, "seconds": self._run(1, tokens, 1)}

    def decode(self, variant: str, batch: int, context: int, steps: int) -> Answer:
        first = self._run(batch, context, 1)
        return {"tokens": batch * steps, "seconds": self._run(batch, context, 1 + steps) - first}

    def _run(self, batch: int, context: int, tokens: int) -> float:
        prompts = [{"prompt_token_ids": random.choices(range(self.vocab), k=context)} for _ in range(batch)]
        params = vllm.SamplingParams(temperature=0, max_tokens=tokens, min_tokens=tokens, ignore_eos=True, detokenize=False)
        start = time.perf_counter()
        self.llm.generate(prompts, params, use_tqdm=False)
        return time.perf_counter() - start


make = Vllm
