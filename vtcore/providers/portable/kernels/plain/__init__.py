"""Kernels of the rare ops: plain loops that Numba compiles. What it made lies in the cache of compiled code: then it isn't even imported.

A kernel is a Python function of (table, thread, threads), as every kernel is natively: it unpacks the table's words, claims rows as
tasks, and calls helpers that work on arrays. Nothing in it allocates, raises or calls anything but helpers.

Where an op must give exactly what its definition gives, and that hangs on the last bit of an exponential or a logarithm, NumPy computes
those here too: other libraries, and NumPy itself on other CPUs, round some of them differently."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vtcore.providers.portable.kernels.plain import attention, choice, draw, logits, mixing, placing, recurrent, scans

if TYPE_CHECKING:
    from vtcore.providers.portable.provider import Portable


def register(p: Portable) -> None:
    """All of them."""
    for family in (attention, choice, draw, logits, mixing, placing, recurrent, scans):
        family.register(p)
