"""What an op's definition says, held against whoever computes it. For a kernel of your own: docs/test-your-kernel.md.

from vtcore.conformance import check, find
for verdict in check(find("./mine.py"), ["rms_norm"]):
    print(verdict)
"""

from vtcore.conformance.case import Case, cases
from vtcore.conformance.check import check, run
from vtcore.conformance.saved import load, save
from vtcore.conformance.verdict import KINDS, Difference, Verdict
from vtcore.providers import find

__all__ = ["KINDS", "Case", "Difference", "Verdict", "cases", "check", "find", "load", "run", "save"]
