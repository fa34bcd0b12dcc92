"""Where work items of a group wait for each other: all of them must get there."""

from __future__ import annotations

import re
from collections.abc import Iterator

MEETS = re.compile(r"\b(?:BARRIER|GROUP_SUM|GROUP_MAX)\b")
BRANCH = re.compile(r"\b(?:if|for|while)\s*\(")
OWN = re.compile(r"\b(?:LANE|INDEX)\b")  # what differs among the work items of a group


def missed(body: str) -> str | None:
    """In what way a body, without comments, may have only some work items at a barrier; None where it hasn't."""
    meets = [m.start() for m in MEETS.finditer(body)]
    returns = re.search(r"\breturn\b", body)
    if returns and meets and returns.start() < meets[-1]:
        return "it returns before a barrier, at which the others would wait"
    for condition, begin, end in branches(body):
        if OWN.search(condition) and any(begin <= at < end for at in meets):
            return f"a barrier, GROUP_SUM or GROUP_MAX stands where only some work items come: under ({' '.join(condition.split())[:60]})"
    return None


def branches(body: str) -> Iterator[tuple[str, int, int]]:
    """Each condition or loop, with where what it governs begins and ends, an `else` included."""
    for match in BRANCH.finditer(body):
        begin = closing(body, match.end() - 1, "()")
        end = statement(body, begin)
        if other := re.compile(r"\s*else\b").match(body, end):
            end = statement(body, other.end())
        yield body[match.end() : begin - 1], begin, end


def statement(body: str, at: int) -> int:
    """Behind the statement that begins at `at`."""
    at += len(body[at:]) - len(body[at:].lstrip())
    if body.startswith("{", at):
        return closing(body, at, "{}")
    if match := BRANCH.match(body, at):
        return statement(body, closing(body, match.end() - 1, "()"))
    return (body.find(";", at) + 1) or len(body)


def closing(body: str, at: int, pair: str) -> int:
    """Behind the bracket that closes the one at `at`; the end, where none does."""
    depth = 0
    for i in range(at, len(body)):
        depth += (body[i] == pair[0]) - (body[i] == pair[1])
        if not depth:
            return i + 1
    return len(body)
