"""Kernels for accelerators: one declaration and one body each, from which every target's text is generated."""
