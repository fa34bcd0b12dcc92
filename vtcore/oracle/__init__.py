"""vtcore as an oracle: its answers, recorded; another engine's, held against them; and why a token differs."""
