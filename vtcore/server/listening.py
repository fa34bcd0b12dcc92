"""Where the server listens: checked and taken before a model is loaded, so that what can't be is said at once."""

from __future__ import annotations

import os
import socket
import ssl
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from vtcore.errors import ArgumentError, VtcoreError

HOST, PORT = "127.0.0.1", 8000
MODE = 0o666  # of a unix socket: whoever may enter its directory may ask


class Listening:
    """Bound sockets at a host and port, or at a unix socket, which is removed in the end. Nobody is let in before the server runs.

    Raises ArgumentError for what can't be listened at, VtcoreError where somebody else does."""

    def __init__(self, host: str | None = None, port: int | None = None, uds: Path | None = None) -> None:
        if uds is not None and (host is not None or port is not None):
            raise ArgumentError("--uds listens at a unix socket, in place of --host and --port: give one or the other")
        self.path, self.place = uds, f"unix:{uds}" if uds else f"{host or HOST}:{port or PORT}"
        self.sockets = [_unix(uds)] if uds else list(_ports(host or HOST, port or PORT))
        self._own = None if uds is None else uds.stat().st_ino

    def __enter__(self) -> Listening:
        return self

    def __exit__(self, *_: object) -> None:
        for bound in self.sockets:
            bound.close()
        with suppress(OSError):
            if self.path is not None and self.path.stat().st_ino == self._own:  # and not that of the next server
                self.path.unlink()


def check_tls(keyfile: Path | None, certfile: Path | None) -> None:
    """Raises ArgumentError for files that no server can speak TLS with."""
    if (keyfile is None) != (certfile is None):
        raise ArgumentError("--ssl-keyfile and --ssl-certfile go together: give both or none")
    if keyfile is None or certfile is None:
        return
    for name, path in (("ssl-keyfile", keyfile), ("ssl-certfile", certfile)):
        if not path.is_file():
            raise ArgumentError(f"--{name} {path}: there is no such file")
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certfile, keyfile, password=_no_password)
    except (OSError, ValueError) as wrong:
        raise ArgumentError(f"no TLS with --ssl-certfile {certfile} and --ssl-keyfile {keyfile}: {wrong}") from None


def _no_password() -> str:
    raise ValueError("the key is encrypted, and there is nobody to ask for its password; decrypt it first")


def _ports(host: str, port: int) -> Iterator[socket.socket]:
    """One for each address that the host has, as `localhost` has two."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as wrong:
        raise ArgumentError(f"--host {host!r:.200} is no address of this machine: {wrong}") from None
    for family, kind, protocol, _, address in dict.fromkeys(found):
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        yield _bound(made, address, f"--host {host} --port {port}")


def _unix(path: Path) -> socket.socket:
    if path.exists() and not stat.S_ISSOCK(path.stat().st_mode):
        raise ArgumentError(f"--uds {path} is there, and no socket; name a path that is free")
    if not path.absolute().parent.is_dir():
        raise ArgumentError(f"--uds {path}: there is no directory {path.parent}")
    made, where = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), f"--uds {path}"
    if path.exists():
        if _answers(path):
            raise VtcoreError(f"{where}: another server listens there; end it, or choose another path")
        path.unlink(missing_ok=True)  # one that was killed left it
    bound = _bound(made, str(path), where)
    os.chmod(path, MODE)
    return bound


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking, suppress(ConnectionRefusedError, FileNotFoundError):
        asking.connect(str(path))
        return True
    return False


def _bound(made: socket.socket, address: Any, where: str) -> socket.socket:
    try:
        made.bind(address)
    except OSError as wrong:
        made.close()
        raise VtcoreError(f"{where}: can't listen there: {wrong.strerror or wrong}") from None
    return made
