"""Stop texts in a stream: found across any cut into pieces, and nothing held back that can't begin one."""

from __future__ import annotations

from collections.abc import Sequence


class StopTexts:
    """Watches a text that arrives in pieces for the first of several texts to be complete.

    One automaton a stop text (Knuth, Morris and Pratt, 1977), so that the work is linear in what arrives; `held` is the longest
    end of the text so far that may still become a stop text."""

    def __init__(self, stops: Sequence[str], include: bool) -> None:
        self.include, self.held = include, ""
        self.found: str | None = None
        self._stops = [(stop, _borders(stop)) for stop in stops]
        self._matched = [0] * len(self._stops)

    def push(self, piece: str, armed: bool = True) -> str:
        """What may be shown now. After a stop text is complete (`found`), nothing more; unless `armed`, one that ends here is let go."""
        if self.found is not None:
            return ""
        shown = self.held + piece
        for at, character in enumerate(piece, start=len(self.held) + 1):
            if (stop := self._step(character)) is not None and armed:
                self.held, self.found = "", stop
                return shown[:at] if self.include else shown[: at - len(stop)]
        keep = len(shown) - max(self._matched, default=0)
        self.held = shown[keep:]
        return shown[:keep]

    def finish(self) -> str:
        """What was held back, when nothing more comes."""
        rest, self.held = self.held, ""
        return rest

    def _step(self, character: str) -> str | None:
        """Advance every automaton by a character: the longest stop text that it completes."""
        complete: str | None = None
        for i, (stop, borders) in enumerate(self._stops):
            n = self._matched[i]
            while n and stop[n] != character:
                n = borders[n - 1]
            n += stop[n] == character
            if n == len(stop):
                complete = stop if complete is None or len(stop) > len(complete) else complete
                n = borders[-1]
            self._matched[i] = n
        return complete


def _borders(text: str) -> list[int]:
    """For each end of a text, how long the longest proper beginning is that also ends there."""
    table, n = [0] * len(text), 0
    for i in range(1, len(text)):
        while n and text[i] != text[n]:
            n = table[n - 1]
        n += text[i] == text[n]
        table[i] = n
    return table
