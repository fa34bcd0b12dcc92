"""Requests that fit, and that don't fit, a server's OpenAPI description: none may be answered by a status from 500 on, or not at all.

python tools/fuzz_server.py http://127.0.0.1:8000 --cases 5000 --api-key KEY
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from typing import Any

import hypothesis
import schemathesis
from schemathesis.generation.case import Case
from schemathesis.generation.modes import GenerationMode

SECONDS = 60
MOST_TOKENS = 4


def main() -> None:
    """Print how many answers had which status; a failing case ends the run with the request that it was."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", metavar="URL", help="where the server listens")
    parser.add_argument("--cases", type=int, default=5000, metavar="N", help="in all, spread over the operations (default 5000)")
    parser.add_argument("--api-key", default="-", metavar="KEY")
    args = parser.parse_args()
    start, statuses = time.monotonic(), fuzz(args.base.rstrip("/"), args.cases, args.api_key)
    for (operation, status), count in sorted(statuses.items()):
        print(f"{count:6d}  {status}  {operation}")
    print(f"{statuses.total()} answers in {time.monotonic() - start:.0f} s, none of them from 500 on")


def fuzz(base: str, cases: int, key: str) -> Counter[tuple[str, int]]:
    """Ask, and count the answers by operation and status. AssertionError names a request that the server failed at."""
    headers = {"Authorization": f"Bearer {key}"}
    schema: Any = schemathesis.openapi.from_url(f"{base}/openapi.json", headers=headers)
    schema.config.generation.update(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
    operations = [found.ok() for found in schema.get_all_operations()]
    statuses: Counter[tuple[str, int]] = Counter()
    varied = sum(map(_varied, operations))
    for operation in operations:
        _fuzz_one(operation, cases // varied + 1 if _varied(operation) else 1, headers, statuses)
    return statuses


def _varied(operation: Any) -> bool:
    return bool(operation.body or operation.path_parameters or operation.query)


def _fuzz_one(operation: Any, cases: int, headers: dict[str, str], statuses: Counter[tuple[str, int]]) -> None:
    def ask(case: Case[Any]) -> None:
        _shorten(case)
        answer = case.call(headers=headers, timeout=SECONDS)
        statuses[operation.label, answer.status_code] += 1
        assert answer.status_code < 500, f"{answer.status_code}: {answer.text[:300]}\n{case.as_curl_command()[:2000]}"

    checks = list(hypothesis.HealthCheck)
    settings = hypothesis.settings(max_examples=cases, deadline=None, database=None, derandomize=True, suppress_health_check=checks)
    settings(hypothesis.given(case=operation.as_strategy())(ask))()


def _shorten(case: Case[Any]) -> None:
    """Few tokens and sequences, so that the time goes into requests; wrong kinds of values stay."""
    if not isinstance(case.body, dict):
        return
    for name in ("max_tokens", "max_completion_tokens", "max_output_tokens"):
        asked = case.body.get(name)
        if asked is None or (isinstance(asked, int) and asked > MOST_TOKENS):
            case.body[name] = MOST_TOKENS


if __name__ == "__main__":
    main()
