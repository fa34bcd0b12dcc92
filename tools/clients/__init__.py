"""Real clients of OpenAI's, and calls that each of them makes of a server."""
