"""What an op's definition says, held against whoever computes it. For a kernel of your own: docs/test-your-kernel.md.

from vtcore.conformance import check_kernel
for verdict in check_kernel("rms_norm", my_function_of_arrays):
    print(verdict)
"""

from vtcore.conformance.case import Case, cases
from vtcore.conformance.check import check, check_kernel, run
from vtcore.conformance.saved import load, save
from vtcore.conformance.verdict import KINDS, Difference, Verdict
from vtcore.providers import find
from vtcore.providers.arrays import kernel

__all__ = ["KINDS", "Case", "Difference", "Verdict", "cases", "check", "check_kernel", "find", "kernel", "load", "run", "save"]
