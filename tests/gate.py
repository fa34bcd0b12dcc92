"""A gate in an engine of another process: shut, that computes nothing, however fast or slow the machine is."""

from __future__ import annotations

from pathlib import Path

PROVIDER = '''
"""It never computes: it is asked for embeddings, and refuses when the gate is open."""
import os
import time
from pathlib import Path

from vtcore.ops import embedding
from vtcore.provider import Provider

PARENT, SHUT, UNLOADED = os.getppid(), Path(__file__).with_name("shut"), Path(__file__).with_name("unloaded")
provider, passed = Provider("gate"), 0


def waits():
    try:
        return passed > int(SHUT.read_text())
    except FileNotFoundError:
        return False


def held(table, ids):
    global passed
    passed = passed + 1 if SHUT.exists() else 0
    while waits() and os.getppid() == PARENT:
        time.sleep(0.002)
    return "a gate computes nothing"


while UNLOADED.exists() and os.getppid() == PARENT:
    time.sleep(0.002)
provider.kernel(embedding, declines=held)(lambda table, ids: None)
'''


class Gate:
    """Open at first. `providers` and `options` are those of the engine, or of the command, that it stands in."""

    def __init__(self, directory: Path, behind: str = "portable") -> None:
        directory.mkdir(exist_ok=True)
        self.directory, path = directory, directory / "gate.py"
        path.write_text(PROVIDER)
        self.providers = f"{path},{behind}"
        self.options = ("--providers", self.providers, "--no-capture")  # a recorded step would ask nobody

    def shut(self, lookups: int = 0) -> None:
        """From now on the engine looks up so many embeddings more: two a step."""
        (self.directory / "made").write_text(str(lookups))
        (self.directory / "made").rename(self.directory / "shut")

    def open(self) -> None:
        """It goes on."""
        (self.directory / "shut").unlink(missing_ok=True)

    def keep_out(self) -> None:
        """Engines that are started from now on don't get ready."""
        (self.directory / "unloaded").touch()

    def let_in(self) -> None:
        """They do."""
        (self.directory / "unloaded").unlink(missing_ok=True)
