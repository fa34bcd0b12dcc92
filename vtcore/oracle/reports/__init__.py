"""A comparison for people and for programs, one form a file."""
