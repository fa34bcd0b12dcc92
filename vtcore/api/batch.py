"""A file of requests, answered into another file: as many at once as the engine takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from vtcore.api.batch_line import BatchLine, read_batch
from vtcore.api.batch_output import BatchOutput
from vtcore.api.chat import ChatRequest
from vtcore.api.chat_answer import ChatAnswer
from vtcore.api.completion import CompletionRequest
from vtcore.api.completion_answer import CompletionAnswer
from vtcore.api.errors import api_error
from vtcore.api.service import Service
from vtcore.errors import ArgumentError, VtcoreError

Done = Callable[[int, int], None]  # answers written, of how many
FAILED = 500  # from this status on it was not the request's fault


class Outcome(NamedTuple):
    """Of a run: how many requests were `refused`, whose lines say why; and which have no line, as the engine `failed`, with its words."""

    refused: int
    failed: dict[str, str]


async def run_batch(service: Service, source: Path, target: Path, at_once: int, done: Done) -> Outcome:
    """Answer what `target` has no answer of yet, in the order in which answers come.

    A fault of the engine is no answer, and may be that of any request beside it: those that it ended are asked once more, each by itself,
    and after a second fault have no line, so that the next run asks them again.
    Raises ArgumentError, before anything is computed, for a file that isn't of the format, and for a target that holds answers to other
    requests. VtcoreError at the end where `source` was changed meanwhile: what was added to it waits for the next run."""
    _check_files(source, target)
    with BatchOutput(target) as output:
        names = {line.custom_id: line.answer_id for line in read_batch(source)}
        _check_same(output, names)
        run = _Run(service, output, len(names), done)
        wanted = (line for line in read_batch(source) if names.get(line.custom_id) == line.answer_id)
        again = await run.answer((line for line in wanted if line.custom_id not in output.answered), at_once)
        failed = await run.answer(iter([line for line, _ in again]), 1)
        if gone := names.keys() - output.answered.keys() - {line.custom_id for line, _ in failed}:
            raise VtcoreError(f"{source} was changed meanwhile: {len(gone)} of its requests are gone, such as {min(gone)!r:.80}")
        return Outcome(run.refused, {line.custom_id: fault for line, fault in failed})


class _Run:
    """Several requests at a time, and an output for what comes of them."""

    def __init__(self, service: Service, output: BatchOutput, total: int, done: Done) -> None:
        self.service, self.output, self.total, self.done, self.refused = service, output, total, done, 0
        done(len(output.answered), total)

    async def answer(self, waiting: Iterator[BatchLine], at_once: int) -> list[tuple[BatchLine, str]]:
        """Ask them all. Gives those that the engine failed, with its words."""
        running: set[asyncio.Task[tuple[BatchLine, dict[str, Any]]]] = set()
        failed: list[tuple[BatchLine, str]] = []
        try:
            while True:
                while len(running) < at_once and (line := next(waiting, None)) is not None:
                    running.add(asyncio.create_task(_answered(self.service, line)))
                if not running:
                    return failed
                finished, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for line, answer in (task.result() for task in finished):
                    if answer["response"]["status_code"] >= FAILED:
                        failed.append((line, answer["error"]["message"]))
                    else:
                        self._write(line, answer)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    def _write(self, line: BatchLine, answer: dict[str, Any]) -> None:
        self.output.write(line.custom_id, answer)
        self.refused += answer["response"]["status_code"] != 200
        self.done(len(self.output.answered), self.total)


async def _answered(service: Service, line: BatchLine) -> tuple[BatchLine, dict[str, Any]]:
    status, body = 200, dict[str, Any]()
    try:
        answer = await _asked(service, line)
        try:
            body = await answer.whole()
        finally:
            answer.abort()
    except Exception as error:  # this request's alone: the others are answered
        refused = api_error(error)
        status, body = refused.status, refused.body()
    response = {"status_code": status, "request_id": uuid4().hex, "body": body}
    fault = None if status == 200 else {"code": str(status), "message": body["error"]["message"]}
    return line, {"id": line.answer_id, "custom_id": line.custom_id, "response": response, "error": fault}


async def _asked(service: Service, line: BatchLine) -> ChatAnswer | CompletionAnswer:
    if line.url.endswith("chat/completions"):
        return await service.chat(ChatRequest.model_validate(line.body))
    return await service.complete(CompletionRequest.model_validate(line.body))


def _check_files(source: Path, target: Path) -> None:
    for path, why in ((source, "requests are read twice"), (target, "answers are read when a run is taken up")):
        if path.exists() and not path.is_file():
            raise ArgumentError(f"{path} is a pipe, a device or a directory; it must be a file, since {why}")


def _check_same(output: BatchOutput, names: dict[str, str]) -> None:
    for custom_id, answer_id in output.answered.items():
        if names.get(custom_id) != answer_id:
            raise ArgumentError(
                f"{output.path} answers {custom_id!r:.100}, which the requests {'ask otherwise' if custom_id in names else 'do not hold'}; "
                "move it away, or name another file"
            )
