"""The kernels, one file a family. Each file declares native kernels, and registers the ops that they serve with a provider."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vtcore.providers.portable.provider import Portable

FAMILIES = (
    "bends", "compressed", "draw", "elementwise", "embedding", "experts", "hyper", "indexer", "linear", "linear_q8", "norm", "nucleus",
    "paged", "pages", "per_head", "plain", "positions", "rope", "routing", "rows", "tempered",
)  # fmt: skip


def register_all(provider: Portable) -> None:
    """Register every family's kernels."""
    for family in FAMILIES:
        import_module(f"{__name__}.{family}").register(provider)
