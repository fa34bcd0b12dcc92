"""How the server is reached, and by whom."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from vtcore.errors import ArgumentError

BODY_LIMIT = 32 << 20  # bytes
REQUEST_SECONDS = 60
HOST = r"([\w.-]+|\[[\da-fA-F:.]+\])(:\d{1,5})?"
ORIGIN = re.compile(rf"\*|null|[a-z][a-z\d+.-]*://{HOST}")  # as browsers send it
URL = re.compile(rf"https?://([^/\s@]+@)?{HOST}(/\S*)?")


@dataclass(frozen=True)
class ServerConfig:
    """What the routes need to know. Raises ArgumentError for what makes no sense."""

    names: Sequence[str]  # of the model; answers bear the first
    api_keys: Sequence[str] = ()  # none: anybody may ask
    origins: Sequence[str] = ()  # of browsers' pages that may call; ("*",): any
    dev_mode: bool = False
    metrics_prefix: str = "vtcore"
    log_format: str = "text"
    traces_endpoint: str | None = None  # a collector's URL
    body_limit: int = BODY_LIMIT
    request_seconds: float = REQUEST_SECONDS  # in which a request must come

    def __post_init__(self) -> None:
        if not self.names or not all(self.names):
            raise ArgumentError("served_model_name is empty; it must be a name of at least one character")
        if any(not key.isascii() or not key.strip() for key in self.api_keys):
            raise ArgumentError("api_key holds an empty or non-ASCII key; a key is sent in a header, so it must be ASCII")
        if wrong := [origin for origin in self.origins if not ORIGIN.fullmatch(origin)]:
            raise ArgumentError(f"allowed_origins holds {wrong[0]!r:.200}; each is as https://page.example:8443, without a path, or *")
        if self.metrics_prefix not in ("vtcore", "vllm"):
            raise ArgumentError(f"metrics_prefix is {self.metrics_prefix!r}; it must be 'vtcore' or 'vllm'")
        if self.traces_endpoint is not None and not URL.fullmatch(self.traces_endpoint):
            raise ArgumentError(
                f"otlp_traces_endpoint is {self.traces_endpoint!r:.200}; it must be a URL, as http://localhost:4318/v1/traces"
            )
