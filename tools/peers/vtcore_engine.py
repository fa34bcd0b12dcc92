"""This project, through the functions of `vtcore bench`: tokenizer, scheduler, block tables and sampler are in every figure."""

from __future__ import annotations

import argparse
import time
from importlib.metadata import version
from typing import Any

from peers.serving import Answer
from vtcore.bench.run import serving_length
from vtcore.bench.speed import Pace, Prompts, decode, prefill
from vtcore.bench.traffic import ReadBandwidth, weight_bytes
from vtcore.llm import LLM
from vtcore.sampling_params import SamplingParams
from vtcore.watched import dispatcher_of

PASSES = 10  # over memory


class Vtcore:
    """A model in vtcore."""

    variants = ("",)

    def __init__(self, args: argparse.Namespace) -> None:
        self.llm = LLM(args.model, numerics=args.numerics, threads=args.threads, max_model_len=serving_length(args.model))
        self.engine, self.prompts = self.llm.engine, Prompts(self.llm.engine)
        facts = dispatcher_of(self.engine).providers[0].facts
        self.about = f"vtcore {version('vtcore')}, numerics {args.numerics}, {facts['instruction set']}, {facts['compiler']}"

    def prefill(self, variant: str, tokens: int) -> Answer:
        return answer(prefill(self.engine, self.prompts.draw(tokens)))

    def decode(self, variant: str, batch: int, context: int, steps: int) -> Answer:
        return answer(decode(self.engine, [self.prompts.draw(context) for _ in range(batch)], steps))

    def generate(self, prompts: list[list[int]], tokens: int) -> Answer:
        """{"tokens", "seconds"}: so many tokens after each prompt, all at once, the prompts' own time counted."""
        params = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True)
        start = time.perf_counter()
        outputs = self.llm.generate([{"prompt_token_ids": p} for p in prompts], params)
        seconds = time.perf_counter() - start
        return {"tokens": sum(len(o.outputs[0].token_ids) for o in outputs), "seconds": seconds}

    def bandwidth(self) -> Answer:
        """What memory gives, and the bytes of weights that a token needs of it."""
        reader = ReadBandwidth(self.engine, PASSES)
        return {"rate": reader.measure(), "weight_bytes": weight_bytes(self.engine), "method": reader.method}

    def greedy(self, text: str, steps: int) -> Answer:
        """The likeliest tokens after a text, and by how much each leads the next one in logits."""
        params = SamplingParams(temperature=0, max_tokens=steps, logprobs=2, ignore_eos=True)
        [output] = self.llm.generate(text, params)
        tokens, said = output.outputs[0].token_ids, output.outputs[0].logprobs or []
        return {"prompt": output.prompt_token_ids, "tokens": tokens, "margins": [margin([p.logprob for p in row.values()]) for row in said]}


def answer(pace: Pace) -> Answer:
    """For the pipe."""
    return {"tokens": pace.tokens, "seconds": pace.seconds}


def margin(logprobs: list[Any]) -> float:
    """How far the largest is ahead of the second."""
    first, second = sorted(logprobs, reverse=True)[:2]
    return float(first - second)


make = Vtcore
