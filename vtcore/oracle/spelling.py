"""Between ids and texts, for servers that tell tokens as text: by the pieces that a recording holds."""

from __future__ import annotations

from collections.abc import Sequence

from vtcore.oracle.recording import Answer, Recording


class Spelling:
    """Every token of a recording, by the texts that servers give it: half characters are dropped by some and replaced by others."""

    def __init__(self, recording: Recording) -> None:
        self.pieces = recording.pieces
        self._ids: dict[str, list[int]] = {}
        for i, piece in self.pieces.items():
            for text in {piece.decode("utf-8", "ignore"), piece.decode("utf-8", "replace")}:
                self._ids.setdefault(text, []).append(i)

    def token(self, text: str | None, preferred: Sequence[int]) -> int | None:
        """The id of a text: of several, the first of `preferred`; None where there is none, or too many."""
        ids = [] if text is None else self._ids.get(text, [])
        return next((i for i in preferred if i in ids), ids[0] if len(ids) == 1 else None)

    def single(self, text: str | None) -> bool:
        """Whether a text is that of one token alone."""
        return text is not None and len(self._ids.get(text, [])) == 1

    def piece(self, token: int) -> str:
        """A token's text; empty where it is none by itself."""
        return self.pieces.get(token, b"").decode("utf-8", "ignore")

    def text(self, answer: Answer, count: int) -> str | None:
        """The prompt and the first `count` tokens of an answer; None where they are no text: of ids alone, or within a character."""
        if answer.text is None or any(t not in self.pieces for t in answer.token_ids[:count]):
            return None
        try:
            return answer.text + b"".join(self.pieces[t] for t in answer.token_ids[:count]).decode()
        except UnicodeDecodeError:
            return None
