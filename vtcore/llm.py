"""The engine in the same process: a model, loaded, and what it is asked for."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vtcore.assembly import assemble
from vtcore.available import available_memory
from vtcore.catalogue import resolve
from vtcore.engine import EngineStats
from vtcore.errors import ArgumentError, OutOfMemoryError, PromptError, TokenizerError, VtcoreError, nearest
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.memory_plan import gib
from vtcore.models.config import ModelConfig
from vtcore.models.decoder import Decoder
from vtcore.options import SERVING, Options
from vtcore.outputs import Delta, RequestOutput
from vtcore.progress_bar import ProgressBar, Wanted
from vtcore.prompts import Parsed, Prompt, pair_params, parse_prompt, parse_prompts, render
from vtcore.report import Report
from vtcore.request import Submission
from vtcore.sampling_params import SamplingParams
from vtcore.text.load import find_tokenizer
from vtcore.text.tokenizer import Tokenizer
from vtcore.wheels import Progress, silent

Array = np.ndarray[Any, Any]
Message = Mapping[str, Any]


class LLM:
    """A model in memory: a directory, a .gguf file, `hf:org/repo[:file]` or a name of the catalogue.

    numerics: "exact", or "fast" (8-bit activations against quantised weights, keys and values kept in float16: llama.cpp's contract; and
        cuBLASLt against dense ones, on cuda).
    providers: names or paths of .py files, as a list or comma-separated, first choice first (None: portable).
    dtype: "bfloat16" or "float16": every op's result, and the weights, are rounded as an engine of that dtype rounds.
    max_model_len: tokens of the longest sequence, prompt and output (None: what the checkpoint is made for).
    threads: to compute with (None: all that the process may use). strict: an op that a provider declines is an error.
    capture: replay steps whose shapes were met before (False: every op by itself, to compare; the results are the same bits).
    block_size: tokens a page of the KV cache. max_num_seqs, max_num_batched_tokens: sequences at once, tokens of one forward.
    serving: options of the cache and the scheduler, by vLLM's names: see docs/scheduling.md.
    memory_limit: bytes, or a text such as "4GiB", for weights, workspace and cache together (None: nine tenths of what is available).
    Weights that can't stay in it are read from their files layer by layer in each step: slowly, as `notes` says.
    progress: called with what is being done (fetching, preparing weights), bytes so far and bytes in all.

    Raises ArgumentError for an option that isn't one, CheckpointError for a broken model, OutOfMemoryError before anything is allocated.
    Several threads may use one LLM; their requests are batched."""

    def __init__(
        self,
        model: str | Path,
        *,
        numerics: str = "exact",
        providers: str | Sequence[str] | None = None,
        dtype: str | None = None,
        max_model_len: int | None = None,
        threads: int | None = None,
        strict: bool = False,
        capture: bool = True,
        block_size: int = Options.block_size,
        max_num_seqs: int = Options.max_num_seqs,
        max_num_batched_tokens: int = Options.max_num_batched_tokens,
        memory_limit: int | str | None = None,
        progress: Progress = silent,
        **serving: Any,
    ) -> None:
        if not callable(progress):
            raise ArgumentError(f"progress is {progress!r:.80}; it must be a function of what is done, bytes so far and bytes in all")
        if not isinstance(model, (str, Path)) or not str(model):
            raise ArgumentError(f"model is {model!r:.80}; it must be a path or a name")
        options = Options(
            numerics,
            providers,
            dtype,
            max_model_len,
            threads,
            strict,
            capture,
            block_size,
            max_num_seqs,
            max_num_batched_tokens,
            memory_limit,
            **_known(serving),
        )
        self.checkpoint = open_checkpoint(resolve(str(model), progress))
        self._tokenizer = find_tokenizer(self.checkpoint)
        made = assemble(self.checkpoint, options, self._tokenizer, progress)
        self.engine, self._model, self._dispatcher, self.memory_plan = made.engine, made.model, made.dispatcher, made.plan
        self._closed = False
        self._at_exit = weakref.finalize(self, self.engine.leave)  # for whoever doesn't close it

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: Wanted = True,
        priority: Sequence[int] | None = None,
    ) -> list[RequestOutput]:
        """An output for each prompt, in their order. Parameters: one for all or one each; None: SamplingParams(), where
        vLLM follows generation_config.json. priority: one for each prompt, the lowest first; it needs scheduling_policy "priority".
        use_tqdm: a bar of the prompts that are answered, where stderr is a terminal; or what makes one, called as tqdm is.

        All prompts and parameters are checked before the first is run. Raises PromptError for one that is empty, too long (with both
        numbers) or holds ids outside the vocabulary, ArgumentError for parameters that don't fit the model."""
        parsed = parse_prompts(prompts)
        ranks = [0] * len(parsed) if priority is None else _ranks(priority)
        if len(ranks) != len(parsed):
            raise ArgumentError(f"priority has {len(ranks)} entries for {len(parsed)} prompts; give one for each")
        together = zip(parsed, pair_params(sampling_params, len(parsed)), ranks, strict=True)
        bar = ProgressBar(len(parsed), use_tqdm)
        return self._run([self.take(p, s, streamed=False, priority=rank) for p, s, rank in together], bar)

    def chat(
        self,
        messages: Sequence[Message] | Sequence[Sequence[Message]],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        chat_template: str | None = None,
        use_tqdm: Wanted = True,
        **template_options: Any,
    ) -> list[RequestOutput]:
        """The answer to a conversation (a list of {"role", "content"}), or to each of several, through the model's chat template.

        `chat_template` is another one, by name or source; `template_options` are what it may read, such as enable_thinking.
        `use_tqdm`: as in generate. Raises TemplateError where there is none, or it refuses the messages."""
        if not isinstance(messages, (list, tuple)):
            raise PromptError(f"messages is {type(messages).__name__}; it must be a list of messages, or a list of such lists")
        several = bool(messages) and isinstance(messages[0], (list, tuple))
        texts = [render(self.tokenizer, c, tools, chat_template, template_options) for c in (messages if several else [messages])]
        params = pair_params(sampling_params, len(texts))
        encode = self.tokenizer.encode
        prompts = [Parsed(t, encode(t, add_special_tokens=False)) for t in texts]
        bar = ProgressBar(len(prompts), use_tqdm)
        return self._run([self.take(p, s, streamed=False) for p, s in zip(prompts, params, strict=True)], bar)

    def stream(self, prompt: Prompt, sampling_params: SamplingParams | None = None) -> Iterator[Delta]:
        """What each step adds, as it comes. The prompt is checked now, and run once the iterator is; to stop early, close the iterator."""
        [params] = pair_params(sampling_params, 1)
        return self._deltas(self.take(parse_prompt(prompt), params))

    def logits(self, token_ids: Sequence[int]) -> Array:
        """float32 [T, vocab]: what the model says after each token of a sequence. Raises OutOfMemoryError where that would not fit."""
        parsed = parse_prompt(token_ids)
        if parsed.token_ids is None:
            raise PromptError("logits takes token ids; tokenizer.encode(text) gives those of a text")
        self._check_room(len(parsed.token_ids))
        submission = self.take(parsed, SamplingParams(max_tokens=0), streamed=False, keep_logits=True)
        self._run([submission], ProgressBar(1, False))
        return np.concatenate(submission.logits)

    @property
    def tokenizer(self) -> Tokenizer:
        """Text to ids and back. Raises TokenizerError where the checkpoint has none."""
        if self._tokenizer is None:
            raise TokenizerError(f"{self.checkpoint.path} has no tokenizer; give prompts as token ids")
        return self._tokenizer

    @property
    def model(self) -> Decoder:
        """The network itself, to look at."""
        return self._model

    @property
    def model_config(self) -> ModelConfig:
        """The model's numbers."""
        return self._model.config

    @property
    def notes(self) -> list[str]:
        """What a user should know of how this checkpoint was read."""
        return list(self._model.weights.notes)

    def stats(self) -> EngineStats:
        """How many sequences wait and run, how full the cache is, and what it saved so far."""
        return self.engine.stats()

    def reset_prefix_cache(self, reset_running_requests: bool = False) -> bool:
        """Forget what the cache keeps of finished requests: after the weights were changed, say. False, and nothing is forgotten, while
        others run; with `reset_running_requests` those give back their pages and compute again."""
        return self.engine.reset_prefix_cache(reset_running_requests)

    @property
    def calls(self) -> int:
        """Ops that have run so far. Any thread may ask, also while another one generates."""
        return self._dispatcher.calls

    def report(self) -> Report:
        """What ran where so far, every decline with its reason, and every copy between memories."""
        return self._dispatcher.report()

    def close(self) -> None:
        """Stop threads and give back devices. A second time changes nothing."""
        if not self._closed:
            self._closed = True
            self.engine.close()
            for provider in self._dispatcher.providers:
                provider.close()

    def __enter__(self) -> LLM:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def take(self, prompt: Parsed, params: SamplingParams, **options: Any) -> Submission:
        """A request for `engine`, checked and not yet queued; `options` are those of Intake.take. Errors as in generate."""
        if self._closed:
            raise VtcoreError("this LLM is closed")
        ids = self.tokenizer.encode(prompt.text or "") if prompt.token_ids is None else prompt.token_ids
        salt = {} if prompt.cache_salt is None else {"cache_salt": prompt.cache_salt}
        return self.engine.intake.take(ids, params, prompt=prompt.text, **salt | options)

    def _check_room(self, tokens: int) -> None:
        needed, free = 2 * 4 * tokens * self.engine.intake.vocab_size, available_memory()  # the chunks, and all of them joined
        if free is not None and needed > free:
            raise OutOfMemoryError(
                f"the logits of {tokens} tokens take {gib(needed)}; {gib(free)} are available: ask for fewer tokens at once"
            )

    def _run(self, submissions: list[Submission], progress: ProgressBar) -> list[RequestOutput]:
        """All of them to their ends; if something raises, none of them stays behind."""
        left = submissions
        try:
            for submission in submissions:
                self.engine.enqueue(submission)
            with progress:
                while left:
                    self.engine.step()
                    for submission in left:
                        submission.raise_fault()
                    progress.ended([s for s in left if s.finished])
                    left = [s for s in left if not s.finished]
        finally:
            self.engine.withdraw(submissions)
        return [s.output() for s in submissions]

    def _deltas(self, submission: Submission) -> Iterator[Delta]:
        try:
            self.engine.enqueue(submission)
            while True:
                while submission.deltas:
                    yield submission.deltas.popleft()
                if submission.finished:
                    return submission.raise_fault()
                self.engine.step()
        finally:
            self.engine.withdraw([submission])


def _ranks(priority: Any) -> list[Any]:
    if isinstance(priority, (str, bytes, Mapping)) or not isinstance(priority, Iterable):
        raise ArgumentError(f"priority is {priority!r:.80}; it must be a list with an integer for each prompt")
    return list(priority)


def _known(serving: dict[str, Any]) -> dict[str, Any]:
    if unknown := [name for name in serving if name not in SERVING]:
        hint = nearest(unknown[0], (*inspect.signature(LLM).parameters, *SERVING))
        raise ArgumentError(f"{unknown[0]} is no option of LLM{hint}; besides those in its signature there are {', '.join(SERVING)}")
    return serving
