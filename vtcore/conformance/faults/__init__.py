"""Faults: kernels that are wrong on purpose, as kernels have been. A check must find each, and call it by its name.

One file a family; each is a function of an op's arrays that goes wrong in one way and is right otherwise."""

from vtcore.conformance.faults import attention, choices, conduct, norms, points, products, states
from vtcore.conformance.faults.fault import FAULTS, Fault

__all__ = ["FAULTS", "Fault", "attention", "choices", "conduct", "norms", "points", "products", "states"]
