"""Fast numerics, and what they can change: quantised weights for everybody, dense ones for a provider that has something for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vtcore.errors import ArgumentError
from vtcore.provider import Provider
from vtcore.quant.blocks import FORMATS

PRODUCTS = "fast products"  # the fact of a provider that multiplies dense weights otherwise under fast numerics: by what
NO_PRODUCTS = "no fast products"  # the fact of one that would, and can't: why


def check_fast(numerics: str, formats: Iterable[str], providers: Sequence[Provider]) -> None:
    """Raises ArgumentError where fast numerics are wanted, and neither weights of these formats nor a provider have what they change."""
    formats = list(formats)
    integers, dense = any(f in FORMATS and FORMATS[f].codes for f in formats), any(f not in FORMATS for f in formats)
    if numerics == "exact" or integers or (dense and any(PRODUCTS in p.facts for p in providers)):
        return
    why = "".join(f"; {p.facts[NO_PRODUCTS]}" for p in providers if NO_PRODUCTS in p.facts)
    raise ArgumentError(f"numerics 'fast' has no effect: it needs weights in blocks of integers, and these are {', '.join(formats)}{why}")
