"""Property tests draw the same examples on every machine, however slow it is."""

from hypothesis import settings

settings.register_profile("vtcore", deadline=None, derandomize=True)
settings.load_profile("vtcore")
