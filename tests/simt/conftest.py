from functools import cache

import pytest

import vtcore.ops  # noqa: F401  (registers the ops)
from vtcore.op import REGISTRY
from vtcore.simt.used import used


@cache
def listed():
    return [v for variants in used(REGISTRY.values()).values() for v in variants]


@pytest.fixture
def variants():
    """Every variant of every kernel that the ops' samples launch."""
    return listed()
