"""Kernels of the rare ops: plain loops that Numba compiles. What it made lies in the cache of compiled code: then it isn't even imported.

A kernel is a Python function of (table, thread, threads), as every kernel is natively: it unpacks the table's words, claims rows as
tasks, and calls helpers that work on arrays. Nothing in it allocates, raises or calls anything but helpers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vtcore.providers.portable.kernels.plain import attention, logits, mixing, placing, recurrent, scans

if TYPE_CHECKING:
    from vtcore.providers.portable.provider import Portable


def register(p: Portable) -> None:
    """All of them."""
    for family in (attention, logits, mixing, placing, recurrent, scans):
        family.register(p)
