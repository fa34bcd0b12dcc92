"""A refusal in the shape that OpenAI's clients read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from pydantic import BaseModel, ValidationError

from vtcore.errors import ArgumentError, EngineDeadError, QueueFullError, TemplateError, VtcoreError
from vtcore.sampling_params import SamplingParams

PARAMETERS = {field.name for field in fields(SamplingParams)} | {"priority", "cache_salt"}
SHOWN = 8  # faults of one body that its error names
TYPES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    404: "NotFoundError",
    408: "RequestTimeoutError",
    413: "RequestTooLargeError",
    415: "UnsupportedMediaTypeError",
    500: "InternalServerError",
    503: "ServiceUnavailableError",
}


class Fault(BaseModel):
    """What a client is told of an error. `code` is the HTTP status, `param` the field that it is about."""

    message: str
    type: str
    param: str | None
    code: int


class Refusal(BaseModel):
    """The body of every error."""

    error: Fault


class ApiError(Exception):
    """An HTTP status with a message, and the field that it is about."""

    def __init__(self, status: int, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.param = status, message, param

    def body(self) -> dict[str, Any]:
        """{"error": {message, type, param, code}}."""
        kind = TYPES.get(self.status, "BadRequestError")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.status}}


def api_error(error: Exception) -> ApiError:
    """What a client is told of an exception. What isn't the client's doing is a 500, without a word of its insides."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, ValidationError):
        return invalid(error.errors(include_url=False, include_context=False, include_input=False))
    if isinstance(error, (ArgumentError, TemplateError)):
        return ApiError(400, str(error), _named(str(error)) if isinstance(error, ArgumentError) else None)
    if isinstance(error, (EngineDeadError, QueueFullError)):
        return ApiError(503, str(error))
    if isinstance(error, VtcoreError):
        return ApiError(500, str(error))
    return ApiError(500, f"the engine failed: {type(error).__name__}")


def _named(message: str) -> str | None:
    """The field that an error of the engine's begins with, as `top_p is 3` or `an id of stop_token_ids is -1`."""
    return next((word for word in message.split()[:4] if word in PARAMETERS), None)


def invalid(faults: Sequence[Mapping[str, Any]]) -> ApiError:
    """What pydantic found wrong with a body, in few words and without the body."""
    told = [f"{_path(f['loc'])}: {str(f['msg'])[:200]}" for f in faults[:SHOWN]]
    more = f" (and {len(faults) - SHOWN} more)" if len(faults) > SHOWN else ""
    return ApiError(400, "; ".join(told) + more, _path(faults[0]["loc"][:1]) or None)


def _path(location: Iterable[Any]) -> str:
    return ".".join(str(part)[:80] for part in location)
