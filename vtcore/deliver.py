"""One chosen token, now its sequence's last: the stop rules in vLLM's order, the text it adds, and the delta that tells of it."""

from __future__ import annotations

from vtcore.errors import NotANumberError
from vtcore.outputs import Delta, Logprobs
from vtcore.request import Request, Status


def deliver(request: Request, token_id: int, logprobs: Logprobs | None) -> tuple[Delta, Status | None]:
    """What a sequence's last token means. The status is given where it ends with it; the caller ends it, which frees what it holds."""
    if logprobs is not None:
        request.logprobs.append(logprobs)
    status, reason = ended_by_token(request, token_id)
    hidden = status is Status.STOPPED and not request.params.include_stop_str_in_output
    text = _text(request, None if hidden else token_id, final=status is not None)
    if request.stops.found is not None:
        status, reason = Status.STOPPED, request.stops.found
    return _delta(request, text, [token_id], logprobs, status, reason), status


def refuse(request: Request) -> tuple[Delta, Status | None]:
    """Nothing can be chosen from logits that are no numbers."""
    raise NotANumberError(
        f"the logits of request {request.submission.request_id!r} after {request.num_tokens} tokens are not numbers: a weight is NaN, or "
        "an op computes wrongly here; run it with providers 'reference' to tell which"
    )


def conclude(request: Request) -> tuple[Delta, Status | None]:
    """End a sequence for which nothing is to be chosen."""
    return _delta(request, "", [], None, Status.LENGTH_CAPPED, None), Status.LENGTH_CAPPED


def ended_by_token(request: Request, token_id: int) -> tuple[Status | None, int | str | None]:
    """How its last token ends a sequence, without regard to its text, and for what reason."""
    if token_id in request.submission.end_ids:
        return Status.STOPPED, None
    if token_id in (request.params.stop_token_ids or ()):
        return Status.STOPPED, token_id
    full = request.num_tokens >= request.submission.max_total_tokens
    return (Status.LENGTH_CAPPED, None) if full else (None, None)


def _text(request: Request, token_id: int | None, final: bool) -> str:
    """What may be shown after a token; a stop text among it cuts it, and ends the sequence."""
    stream, stops = request.detokenizer, request.stops
    if stream is None:
        return ""
    piece = ("" if token_id is None else stream.push(token_id)) + (stream.finish() if final else "")
    shown = stops.push(piece, armed=len(request.output_token_ids) > request.params.min_tokens)
    return shown + (stops.finish() if final and stops.found is None else "")


def _delta(
    request: Request, text: str, ids: list[int], logprobs: Logprobs | None, status: Status | None, reason: int | str | None
) -> Delta:
    request.text += text
    request.stop_reason = reason
    told = None if request.params.logprobs is None else [] if logprobs is None else [logprobs]
    ended = None if status is None else str(status.value)
    return Delta(request.submission.request_id, request.index, text, ids, told, ended, reason)
