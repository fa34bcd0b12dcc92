import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from tests.checkpoints import random_llama
from tests.cli.conftest import TEMPLATE, write_tokenizer
from tests.patience import SECONDS


@pytest.fixture(scope="session")
def model(tmp_path_factory) -> Path:
    """A tiny model of random weights with a chat template and a token a byte."""
    directory = random_llama(tmp_path_factory.mktemp("server"), max_position_embeddings=512)
    write_tokenizer(directory, TEMPLATE)
    return directory


class Server:
    """`vtcore serve` at a unix socket, or at a port, which is then kept from everybody else for as long as the server runs."""

    def __init__(self, model: Path | str, directory: Path, *options: str, at_port: bool = False, name: str = "tiny") -> None:
        self.log, path = (directory / "log").open("w+"), str(directory / "s")
        self.kept, port = kept_port() if at_port else (None, None)
        where = ["--port", str(port)] if port else ["--uds", path]
        command = [sys.executable, "-m", "vtcore", "serve", str(model), *where, "--served-model-name", name, *options]
        self.process = subprocess.Popen(command, stderr=self.log, stdout=self.log)
        self.address = f"http://127.0.0.1:{port}" if port else "http://server"
        transport = httpx.HTTPTransport(uds=None if port else path)
        self.client = httpx.Client(transport=transport, base_url=self.address, timeout=SECONDS)

    def wait(self, status: int = 200) -> None:
        """Until /health says so."""
        end = time.monotonic() + SECONDS
        while (told := self.health()) != status:
            assert time.monotonic() < end, f"/health is {told} after {SECONDS} s, not {status}: {self.said()}"
            assert self.process.poll() is None, self.said()
            time.sleep(0.01)

    def health(self) -> int | None:
        """What /health says; None: nobody listens."""
        try:
            return self.client.get("/health").status_code
        except httpx.TransportError:
            return None

    def said(self) -> str:
        """The log so far."""
        return Path(self.log.name).read_text()

    def engine(self) -> int:
        """The process id of the engine."""
        end = time.monotonic() + SECONDS
        while len(pids := self.engines()) != 1:
            assert time.monotonic() < end, f"the engines are {pids}: {self.said()}"
            time.sleep(0.01)
        return pids[0]

    def engines(self) -> list[int]:
        """The same; none where it has died, and the next one has not been started."""
        children: list[int] = []
        with suppress(OSError):  # the process ends while it is looked at
            for task in Path(f"/proc/{self.process.pid}/task").iterdir():
                with suppress(OSError):  # or a thread does
                    children += map(int, (task / "children").read_text().split())
        return children

    def wait_for_load(self, requests: int) -> None:
        """Until so many requests are open."""
        end = time.monotonic() + SECONDS
        while (load := self.client.get("/load").json()["server_load"]) != requests:
            assert time.monotonic() < end, f"{load} requests are open, not {requests}"
            time.sleep(0.005)

    def check_idle(self) -> None:
        """Fails where a request, or what it held, has not been let go."""
        end = time.monotonic() + SECONDS
        while (held := self.held()) != (0, 0, 0, 0):
            assert time.monotonic() < end, f"requests open, running, waiting, and use of the cache: {held}"
            time.sleep(0.05)

    def held(self) -> tuple[float, ...]:
        """Requests open, running and waiting, and how much of the cache is in use."""
        stats = self.client.get("/stats").json()["stats"]
        return (self.client.get("/load").json()["server_load"], stats["running"], stats["waiting"], stats["kv_usage"])

    def stop(self) -> int:
        """End it as a service manager does; its exit status."""
        self.process.terminate()
        try:
            return self.process.wait(SECONDS)
        finally:
            self.process.kill()
            self.client.close()
            self.log.close()
            if self.kept:
                self.kept.close()


def kept_port() -> tuple[socket.socket, int]:
    """A port, and what keeps Linux from giving it to others: a server allows the reuse of addresses too, so it may listen there."""
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("127.0.0.1", 0))
    port = int(kept.getsockname()[1])
    if sys.platform != "linux":  # elsewhere nobody could listen at it
        kept.close()
    return kept, port


@contextmanager
def serving(model: Path | str, directory: Path, *options: str, at_port: bool = False, name: str = "tiny") -> Iterator[Server]:
    """A server of one's own, ready."""
    server = Server(model, directory, *options, at_port=at_port, name=name)
    try:
        server.wait()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def server(model, tmp_path_factory) -> Iterator[Server]:
    """One that the tests share, and that must be idle when they have ended."""
    with serving(model, tmp_path_factory.mktemp("s")) as made:
        yield made
        made.check_idle()


@pytest.fixture
def ask(server):
    """POST, and the answer's body; the status must be the wanted one."""

    def asked(path, body, status=200):
        answer = server.client.post(path, json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    return asked
