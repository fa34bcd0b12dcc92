"""Servers of other engines over HTTP, one dialect a file: how each takes token ids, and how it tells log probabilities."""
