"""The process that a kernel runs in, since it may end it: a job on its standard input, the result on its standard output."""

from __future__ import annotations

import os
import pickle
import sys

from vtcore.errors import VtcoreError
from vtcore.simt.program import Program, Text
from vtcore.simt.trial import Trial


def main() -> None:
    """Compile, say how many bytes a group shares, run, answer."""
    text, kernel, launch, values = pickle.load(sys.stdin.buffer)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a kernel prints is no answer
    try:
        program = Program([Text(*text)])
        trial = Trial(program, kernel, launch, values)
        answer: tuple[object, ...] = ("done", program.shared(kernel.name), trial.result())
    except VtcoreError as wrong:
        answer = ("failed", type(wrong).__name__, str(wrong))
    pickle.dump(answer, answers)
    answers.flush()


if __name__ == "__main__":
    main()
