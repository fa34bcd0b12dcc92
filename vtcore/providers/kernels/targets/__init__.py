"""Generators: one kernel variant as the source text of one target."""
