"""The engine for asyncio: one thread steps, and every request is a stream in the event loop that asked for it."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any

from vtcore.delta_queue import Item
from vtcore.errors import ArgumentError, VtcoreError
from vtcore.llm import LLM
from vtcore.prompts import Prompt, parse_prompt
from vtcore.request import Submission
from vtcore.sampling_params import SamplingParams
from vtcore.stream import Stream

Command = Callable[[], None]


class AsyncEngine:
    """An LLM that coroutines share. Any number of event loops and threads may submit; their requests are batched.

        engine = AsyncEngine(LLM("smollm2-135m"))
        async with await engine.submit("Once upon a time") as stream:
            async for delta in stream:
                print(delta.text, end="")
        await engine.close()

    A fault of one request ends that one. A fault of a step, which may be anybody's, ends the requests that were in it; those that
    wait are run. Closing ends all of its requests, and leaves the LLM, and what others ask it, to whoever made it."""

    def __init__(self, llm: LLM) -> None:
        self.llm = llm
        self._commands: SimpleQueue[Command | None] = SimpleQueue()
        self._streams: dict[str, Stream] = {}
        self._closed, self._lock = False, threading.Lock()
        self._thread = threading.Thread(target=self._serve, name="vtcore-engine", daemon=True)
        self._thread.start()

    @property
    def max_model_len(self) -> int:
        """Tokens that a prompt and its answer may have together."""
        return self.llm.engine.intake.config.max_model_len

    async def submit(self, prompt: Prompt, sampling_params: SamplingParams | None = None, **options: Any) -> Stream:
        """Check a request and queue it. `options` are those of Intake.take, such as request_id.

        Raises PromptError and ArgumentError as LLM.generate does, and VtcoreError once the engine is closed."""
        self._running()
        params = SamplingParams() if sampling_params is None else sampling_params
        if not isinstance(params, SamplingParams):
            raise ArgumentError(f"sampling_params is {params!r:.80}; it must be SamplingParams")
        return self.enqueue(await asyncio.to_thread(self.llm.take, parse_prompt(prompt), params, **options))

    def enqueue(self, submission: Submission) -> Stream:
        """Queue what LLM.take has checked."""
        stream = Stream(submission, self._abort)
        with self._lock:  # what is queued comes before the end of the queue
            self._running()
            self._commands.put(partial(self._begin, stream))
        return stream

    @property
    def healthy(self) -> bool:
        """Whether requests are being served."""
        return not self._closed and self._thread.is_alive()

    @property
    def num_unfinished(self) -> int:
        """Requests whose streams have not ended."""
        return len(self._streams)

    async def close(self) -> None:
        """End every request, and the thread. A second time changes nothing."""
        self._shut()
        await asyncio.to_thread(self._thread.join)

    def _shut(self) -> None:
        with self._lock:
            self._closed = True
            self._commands.put(None)

    def _running(self) -> None:
        if not self.healthy:
            raise VtcoreError("this AsyncEngine is closed")

    def _abort(self, stream: Stream) -> None:
        self._commands.put(partial(self._end, stream))

    def _serve(self) -> None:
        """The thread: commands between steps, and a wait where there is nothing to compute."""
        fault: Exception = VtcoreError("the engine was closed before the request ended")
        try:
            while self._obey():
                self._step()
                self._hand_over()
        except BaseException as error:  # nobody is above: whoever waits is told
            fault = _told_as(error)
            self._shut()
            while self._obey():
                pass
            raise
        finally:
            self._fail(list(self._streams.values()), fault)
            self.llm.engine.rest()

    def _obey(self) -> bool:
        """Carry out what has been asked for since the last step; False: to close. It waits where nothing is computed, and nobody is to be
        told what another thread's steps have computed."""
        while (self.llm.engine.idle and not self._streams) or not self._commands.empty():
            command = self._commands.get()
            if command is None:
                return False
            command()
        return True

    def _begin(self, stream: Stream) -> None:
        try:
            self.llm.engine.enqueue(stream.submission)
        except Exception as refused:  # its id is taken, the queue is full, or whatever else is this one's alone
            _post({stream: [refused]})
        else:
            self._streams[stream.request_id] = stream

    def _end(self, stream: Stream) -> None:
        if self._streams.get(stream.request_id) is stream:
            del self._streams[stream.request_id]
            self.llm.engine.abort(stream.request_id)

    def _step(self) -> None:
        try:
            self.llm.engine.step()
        except BaseException as fault:  # whatever a kernel raises: the other requests live on
            self._fail([s for s in self._streams.values() if s.submission.first_scheduled is not None], _told_as(fault))

    def _fail(self, streams: list[Stream], fault: Exception) -> None:
        for stream in streams:
            self._end(stream)
        _post({s: [*_deltas(s), s.submission.fault or fault] for s in streams})

    def _hand_over(self) -> None:
        """What the step added, to whoever reads it."""
        told: dict[Stream, list[Item]] = {}
        for stream in list(self._streams.values()):
            if fault := stream.submission.fault:
                self._fail([stream], fault)
                continue
            items = _deltas(stream)
            if stream.submission.finished:
                del self._streams[stream.request_id]
                items.append(None)
            if items:
                told[stream] = items
        for gone in _post(told):
            self._end(gone)


def _told_as(fault: BaseException) -> Exception:
    """What a reader gets: nothing that would end the reader's own task, loop or process."""
    return fault if isinstance(fault, Exception) else VtcoreError(f"a step ended with {fault!r:.200}")


def _deltas(stream: Stream) -> list[Item]:
    unread = stream.submission.deltas
    return [unread.popleft() for _ in range(len(unread))]


def _post(told: dict[Stream, list[Item]]) -> list[Stream]:
    """Put items into streams, with one call a loop: waking one costs more than a token. Gives back those whose loop is closed."""
    by_loop: dict[asyncio.AbstractEventLoop, dict[Stream, list[Item]]] = defaultdict(dict)
    for stream, items in told.items():
        by_loop[stream.loop][stream] = items
    gone: list[Stream] = []
    for loop, streams in by_loop.items():
        try:
            loop.call_soon_threadsafe(_put, streams)
        except RuntimeError:  # closed: nobody can read
            gone += streams
    return gone


def _put(told: dict[Stream, list[Item]]) -> None:
    for stream, items in told.items():
        stream.put(*items)
