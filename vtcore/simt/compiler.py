"""The machine's C++ compiler: found, asked for its version, and used; what it made is kept on disk by what went in."""

from __future__ import annotations

import atexit
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from vtcore.caches import cache_directory
from vtcore.errors import ProviderError, ProviderUnavailableError
from vtcore.kernel_files import kernel_files, used

HEADERS = Path(__file__).parent / "headers"
CHOICE = "CXX"
COMPILERS = ("g++", "clang++", "c++")
# nothing is fused that the text doesn't fuse, and a jump from one stack to another is no attack
FLAGS = (
    "-std=c++17",
    "-O1",
    "-shared",
    "-fPIC",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-U_FORTIFY_SOURCE",
    "-w",
)
SECONDS = 300
SHOWN = 1500  # characters of what a compiler says


def compiler() -> tuple[str, ...]:
    """The command: what CXX says, or the first of g++, clang++ and c++. Raises ProviderUnavailableError where there is none."""
    chosen = shlex.split(os.environ.get(CHOICE, ""))
    for command in [chosen] if chosen else [[name] for name in COMPILERS]:
        if shutil.which(command[0]):
            return tuple(command)
    looked = f"{CHOICE} names {chosen[0]!r}, which isn't there" if chosen else f"neither of {', '.join(COMPILERS)} is there"
    raise ProviderUnavailableError(
        f"a kernel's text is run on the processor by a C++ compiler, and {looked}; "
        f"install one (Debian: apt-get install g++; macOS: xcode-select --install), or name yours in {CHOICE}"
    )


@cache
def version(command: tuple[str, ...]) -> str:
    """The first line of what the compiler says of itself."""
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=SECONDS, check=False)
    return done.stdout.partition("\n")[0].strip() or command[0]


@cache
def _headers() -> bytes:
    return b"".join(path.read_bytes() for path in sorted(HEADERS.iterdir()) if path.is_file())


def library(text: str) -> Path:
    """A shared library of this C++ text, from disk where it was made before.

    Raises ProviderUnavailableError without a compiler, ProviderError with the compiler's words where it refuses the text."""
    command = compiler()
    key = hashlib.sha256("\0".join((*command, version(command), *FLAGS, text)).encode() + _headers()).hexdigest()[:32]
    path = cache_directory() / "kernels" / "simt" / f"{key}.so"
    if path.exists():
        used(path)
        return path
    made = _compiled(command, text)
    if kernel_files().put(path, made):
        return path
    path = _own() / path.name
    path.write_bytes(made)
    return path


@cache
def _own() -> Path:
    """Where libraries are that the cache doesn't take, until this process ends."""
    directory = tempfile.mkdtemp(prefix="vtcore-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return Path(directory)


def _compiled(command: tuple[str, ...], text: str) -> bytes:
    with tempfile.TemporaryDirectory() as name:
        source, made = Path(name, "kernel.cpp"), Path(name, "kernel.so")
        source.write_text(text, encoding="utf-8")
        line = [*command, *FLAGS, f"-I{HEADERS}", str(source), "-o", str(made)]
        try:
            done = subprocess.run(line, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise ProviderError(f"{command[0]} took over {SECONDS} s for a kernel's text") from None
        if done.returncode:
            raise ProviderError(f"{command[0]} doesn't take the kernel's text: {done.stderr.replace(f'{source}:', '').strip()[:SHOWN]}")
        return made.read_bytes()
