"""How many tokens an answer took."""

from __future__ import annotations

from collections.abc import Sequence

from vtcore.request import Submission


def usage(submissions: Sequence[Submission]) -> dict[str, int]:
    """Of a request's prompts, and of all their sequences so far."""
    prompt = sum(len(s.prompt_token_ids) for s in submissions)
    completion = sum(len(r.output_token_ids) for s in submissions for r in s.requests)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
