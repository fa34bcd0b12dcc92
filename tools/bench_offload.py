"""How long a prompt's first token takes whose beginning is brought back from a tier, against computing it: in turn, a new prompt that
pushes the one before out of the cache, and that one again.

python tools/bench_offload.py MODEL [--tokens 1000] [--rounds 9] [--tiers host,disk]"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from statistics import median
from typing import Any

from vtcore import LLM, SamplingParams

BLOCK = 32
ONE = SamplingParams(temperature=0, max_tokens=1)


def seconds(llm: LLM, prompt: list[int]) -> tuple[float, int]:
    """To the first token, and how many tokens were not computed for it."""
    begin = time.perf_counter()
    output = llm.generate({"prompt_token_ids": prompt}, ONE)[0]
    return time.perf_counter() - begin, output.num_cached_tokens or 0


def rounds(llm: LLM, tokens: int, count: int) -> list[tuple[float, float]]:
    """Pairs: computed, and brought back."""
    rng, pairs = random.Random(0), list[tuple[float, float]]()
    vocab = llm.engine.intake.vocab_size
    before = [rng.randrange(vocab) for _ in range(tokens + 1)]
    seconds(llm, before)
    for _ in range(count + 1):
        new = [rng.randrange(vocab) for _ in range(tokens + 1)]
        computed, none = seconds(llm, new)
        brought, found = seconds(llm, before)
        if none or found < tokens // BLOCK * BLOCK:
            raise SystemExit(f"{none} and {found} tokens came from the cache; 0 and {tokens // BLOCK * BLOCK} should")
        pairs.append((computed, brought))
        before = new
    return pairs[1:]  # the first compiles kernels


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--tokens", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tiers", default="host,disk")
    parser.add_argument("--threads", type=int)
    args = parser.parse_args()
    pages = 2 + -(-(args.tokens + 2) // BLOCK)
    small: dict[str, Any] = {
        "block_size": BLOCK,
        "num_gpu_blocks_override": pages,
        "max_model_len": args.tokens + 2,
        "threads": args.threads,
    }
    print(f"{'tier':>8s} {'computed, s':>12s} {'brought back, s':>16s} {'times as fast':>14s} {'MB':>8s} {'pairs':>6s}")
    for tier in args.tiers.split(","):
        with tempfile.TemporaryDirectory() as folder:
            where = {"kv_offloading_size": 2} if tier == "host" else {"kv_offloading_dir": folder, "kv_offloading_dir_size": 4}
            with LLM(args.model, max_num_seqs=1, **small, **where) as llm:
                pairs = rounds(llm, args.tokens, args.rounds)
                loaded = llm.stats().cache.tiers[tier].loaded_bytes / (len(pairs) + 1) / 1e6
        computed, brought = (median(times) for times in zip(*pairs, strict=True))
        ratio = median(c / b for c, b in pairs)
        print(f"{tier:>8s} {computed:12.3f} {brought:16.3f} {ratio:14.1f} {loaded:8.1f} {len(pairs):6d}")


if __name__ == "__main__":
    main()
