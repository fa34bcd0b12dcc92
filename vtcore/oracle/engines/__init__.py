"""What recordings are compared with, one engine a file."""
