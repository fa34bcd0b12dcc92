"""Null kernels: generated for every op, they do nothing, or work only where somebody looks. A check that passes one is worth nothing.

Public benches of kernels have passed such ones: outputs so small that zeros are within an absolute tolerance (KernelBench, 2025)."""

from vtcore.conformance.nulls import conduct, empty, partial
from vtcore.conformance.nulls.null import NULLS, Null

__all__ = ["NULLS", "Null", "conduct", "empty", "partial"]
