"""What the providers of accelerators share: memory that launches, the table of ops, and views that kernels can read."""
