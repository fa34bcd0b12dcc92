"""llama.cpp through the C interface that llama-cpp-python wraps: real batches, logits of last tokens only, the largest of them taken."""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Sequence
from typing import Any

import llama_cpp as ll
import numpy as np

from peers.serving import Answer

BATCH = 512  # tokens of a forward at most
FLASH = {"plain attention": ll.LLAMA_FLASH_ATTN_TYPE_DISABLED, "flash attention": ll.LLAMA_FLASH_ATTN_TYPE_ENABLED}


class Llama:
    """A model, and a context for each way to compute attention; the cache is float16, as is the default."""

    variants = tuple(FLASH)

    def __init__(self, args: argparse.Namespace) -> None:
        self.quiet = ll.llama_log_callback(lambda level, text, data: None)
        ll.llama_log_set(self.quiet, ctypes.c_void_p(0))
        ll.llama_backend_init()
        params = ll.llama_model_default_params()
        params.n_gpu_layers = 0
        self.model = ll.llama_model_load_from_file(args.model.encode(), params)
        if not self.model:
            raise ValueError(f"llama.cpp can't load {args.model}")
        self.threads, self.rng = args.threads, np.random.default_rng(0)
        self.vocab = ll.llama_model_get_vocab(self.model)
        self.size = ll.llama_vocab_n_tokens(self.vocab)
        self.about = f"llama.cpp, llama-cpp-python {ll.__version__}: {ll.llama_print_system_info().decode().strip()}"
        self.contexts: dict[tuple[str, int], Context] = {}

    def context(self, variant: str, sequences: int) -> Context:
        """One with room for so many sequences; made once. For one sequence, room for the longest prompt; for several, 256 tokens each."""
        key = variant, sequences
        if key not in self.contexts:
            self.contexts[key] = Context(self, FLASH[variant], sequences, BATCH + 256 if sequences == 1 else 256)
        return self.contexts[key]

    def prefill(self, variant: str, tokens: int) -> Answer:
        context, ids = self.context(variant, 1), self.draw(tokens)
        context.forget()
        start = time.perf_counter()
        context.prefill([ids])
        return {"tokens": tokens, "seconds": time.perf_counter() - start}

    def decode(self, variant: str, batch: int, context: int, steps: int) -> Answer:
        where = self.context(variant, batch)
        where.keep([self.draw(context) for _ in range(batch)])
        start = time.perf_counter()
        for i in range(steps):
            where.step(context + i)
        return {"tokens": batch * steps, "seconds": time.perf_counter() - start}

    def greedy(self, prompt: list[int], steps: int) -> Answer:
        """The likeliest tokens after a prompt, and by how much each leads the next one in logits."""
        context = self.context("flash attention", 1)
        context.forget()
        tokens, margins = list[int](), list[float]()
        for i in range(steps):
            rows = context.step(len(prompt) + i - 1) if i else context.prefill([prompt])
            tokens += context.last
            second, first = np.partition(rows[0], -2)[-2:]
            margins.append(float(first - second))
        return {"tokens": tokens, "margins": margins}

    def first_token(self, text: str) -> str:
        """A piece of text."""
        raw = text.encode()
        ids = (ll.llama_token * (len(raw) + 8))()
        count = ll.llama_tokenize(self.vocab, raw, len(raw), ids, len(ids), True, False)
        context = self.context("flash attention", 1)
        context.prefill([list(ids)[:count]])
        piece = ctypes.create_string_buffer(64)
        length = ll.llama_token_to_piece(self.vocab, context.last[0], piece, 64, 0, False)
        return piece.raw[:length].decode(errors="replace")

    def draw(self, tokens: int) -> list[int]:
        """A random prompt."""
        ids: list[int] = self.rng.integers(0, self.size, tokens).tolist()
        return ids


class Context:
    """A cache for a number of sequences, and the batch through which it is filled."""

    def __init__(self, llama: Llama, flash: int, sequences: int, length: int) -> None:
        params = ll.llama_context_default_params()
        params.n_ctx, params.n_seq_max = sequences * length, sequences
        params.n_batch = params.n_ubatch = BATCH
        params.n_threads = params.n_threads_batch = llama.threads
        params.flash_attn_type = flash
        params.no_perf = True
        self.raw = ll.llama_init_from_model(llama.model, params)
        if not self.raw:
            raise ValueError(f"llama.cpp can't make a context of {params.n_ctx} tokens")
        self.memory, self.size = ll.llama_get_memory(self.raw), llama.size
        self.batch = ll.llama_batch_init(BATCH, 0, 1)
        names = ("token", "pos", "n_seq_id", "logits")
        self.token, self.position, counts, self.wanted = (np.ctypeslib.as_array(getattr(self.batch, n), (BATCH,)) for n in names)
        counts[:] = 1
        self.sequence = np.zeros(BATCH, np.int32)
        for i in range(BATCH):  # one array in place of as many pieces of one number
            self.batch.seq_id[i] = ctypes.cast(self.sequence.ctypes.data + 4 * i, ctypes.POINTER(ctypes.c_int32))
        self.kept: tuple[int, int] | None = None  # sequences and tokens of each that are in the cache, prompts only
        self.prompted: list[int] = []  # the likeliest token after each kept prompt
        self.last: list[int] = []  # the likeliest next token of each sequence

    def forget(self) -> None:
        """Empty the cache."""
        ll.llama_memory_clear(self.memory, True)
        self.kept = None

    def keep(self, prompts: Sequence[list[int]]) -> None:
        """Have so many prompts of this length in the cache and nothing after them; what is there already stays."""
        wanted = len(prompts), len(prompts[0])
        if self.kept != wanted:
            self.forget()
            self.prefill(prompts)
            self.kept, self.prompted = wanted, list(self.last)
        for sequence in range(wanted[0]):
            ll.llama_memory_seq_rm(self.memory, sequence, wanted[1], -1)
        self.last = list(self.prompted)

    def prefill(self, prompts: Sequence[list[int]]) -> Any:
        """Logits after the last of the prompts; as many prompts in one forward as fit."""
        length, likeliest = len(prompts[0]), list[int]()
        each = BATCH // length
        for i in range(0, len(prompts), each):
            n = len(prompts[i : i + each])
            last = np.tile(np.arange(length) == length - 1, n)
            rows = self.run(np.concatenate(prompts[i : i + n]), np.tile(np.arange(length), n), np.repeat(np.arange(i, i + n), length), last)
            likeliest += rows.argmax(-1).tolist()
        self.last = likeliest
        return rows

    def step(self, position: int) -> Any:
        """One token more for every sequence: logits [sequences, vocabulary]."""
        n = len(self.last)
        rows = self.run(np.array(self.last), np.full(n, position), np.arange(n), np.ones(n, bool))
        self.last = rows.argmax(-1).tolist()
        return rows

    def run(self, tokens: Any, positions: Any, sequences: Any, wanted: Any) -> Any:
        """A forward: the wanted rows of logits, as they lie in llama.cpp's memory until the next one."""
        n = self.batch.n_tokens = len(tokens)
        self.token[:n], self.position[:n], self.sequence[:n], self.wanted[:n] = tokens, positions, sequences, wanted
        if status := ll.llama_decode(self.raw, self.batch):
            raise ValueError(f"llama_decode gives {status}")
        ll.llama_synchronize(self.raw)
        return np.ctypeslib.as_array(ll.llama_get_logits(self.raw), (int(wanted.sum()), self.size))


make = Llama
