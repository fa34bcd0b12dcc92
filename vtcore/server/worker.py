"""The engine's process: commands in, one message a step out."""

from __future__ import annotations

import json
import os
import signal
import traceback

import zmq

from vtcore.errors import VtcoreError
from vtcore.llm import LLM
from vtcore.prompts import Parsed
from vtcore.request import Submission
from vtcore.sampling_params import SamplingParams
from vtcore.server.answers import Answers
from vtcore.server.pulse import Pulse
from vtcore.server.wire import (
    Abort,
    Accepted,
    Added,
    Call,
    Close,
    Ended,
    Failed,
    FromEngine,
    Ready,
    Refused,
    Submit,
    Told,
    pack,
    unpack_to_engine,
)

IDLE_MS = 1000  # how often an idle engine looks whether the server is still there


class Worker:
    """Steps an engine for as long as there is something to do, and hears commands between the steps."""

    def __init__(self, llm: LLM, socket: zmq.Socket[bytes]) -> None:
        self.llm, self.engine, self.socket = llm, llm.engine, socket
        self.answers = Answers(llm)
        self.running: dict[str, Submission] = {}
        self.closing, self.turns = False, 0

    def run(self, server: int) -> None:
        """Until it is told to close, or the server's process is gone."""
        self.say(Ready(self.answers.info()))
        while not self.closing and os.getppid() == server:
            self.turns += 1
            while not self.closing and self.socket.poll(IDLE_MS if self.engine.idle else 0):
                self._obey(self.socket.recv())
            if not self.engine.idle and not self.closing:
                self._step()
        self.engine.abort_all()

    def progress(self) -> tuple[int, int]:
        """What changes where the engine gets on, if only by an op, or by being idle. Any thread may ask."""
        return self.turns, self.llm.calls

    def say(self, message: FromEngine) -> None:
        """Send a message."""
        self.socket.send(pack(message))

    def _obey(self, raw: bytes) -> None:
        command = unpack_to_engine(raw)
        if isinstance(command, Submit):
            self._submit(command)
        elif isinstance(command, Abort):
            self.running.pop(command.request_id, None)
            self.engine.abort(command.request_id)
        elif isinstance(command, Call):
            self._answer(command)
        else:
            assert isinstance(command, Close)
            self.closing = True

    def _submit(self, asked: Submit) -> None:
        try:
            params = SamplingParams(**asked.params)
            submission = self.llm.take(Parsed(None, asked.prompt_token_ids), params, request_id=asked.request_id, **asked.options)
            self.engine.enqueue(submission)
        except VtcoreError as refused:
            self.say(Refused(asked.request_id, type(refused).__name__, str(refused)))
        else:
            self.running[asked.request_id] = submission
            self.say(Accepted(asked.request_id))

    def _answer(self, call: Call) -> None:
        try:
            self.say(Told(call.call_id, self.answers.to(call.name)))
        except Exception as fault:  # the question's own: the engine goes on
            self.say(Told(call.call_id, None, f"{type(fault).__name__}: {fault}"))

    def _step(self) -> None:
        fault: Exception | None = None
        try:
            self.engine.step()
        except Exception as raised:  # whatever a kernel raises: the other requests live on
            fault = raised
        self._tell_deltas()
        for name, submission in list(self.running.items()):
            if submission.fault or (fault and submission.first_scheduled is not None):
                self._fail(name, submission.fault or fault)
            elif submission.finished:
                self._end(name, submission)

    def _tell_deltas(self) -> None:
        deltas = [s.deltas.popleft() for s in self.running.values() for _ in range(len(s.deltas))]
        if deltas:
            self.say(Added(deltas))

    def _end(self, name: str, submission: Submission) -> None:
        del self.running[name]
        asked = submission.params.prompt_logprobs is not None
        cached = submission.requests[0].num_cached_tokens
        self.say(Ended(name, submission.prompt_logprobs if asked else [], submission.timings(), cached))

    def _fail(self, name: str, fault: Exception | None) -> None:
        del self.running[name]
        self.engine.abort(name)
        known = isinstance(fault, VtcoreError)
        self.say(Failed(name, str(fault) if known else f"the engine failed: {type(fault).__name__}"))
        if not known:
            traceback.print_exception(fault)


def load(model: str, options: str) -> LLM:
    """The engine; its options are LLM's, as JSON. Ctrl-C is the server's business from now on: it says when to close."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return LLM(model, **json.loads(options))


def work(llm: LLM, endpoint: str, server: int) -> None:
    """Do what the server's process asks for at an endpoint, until it is to close."""
    with llm, zmq.Context() as context, context.socket(zmq.PAIR) as socket:
        socket.linger = 0
        socket.connect(endpoint)
        worker = Worker(llm, socket)
        with Pulse(context, endpoint, worker.progress):
            worker.run(server)
