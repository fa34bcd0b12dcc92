"""A real server, in a process of its own: vtcore's, which speaks as vLLM's does. llama.cpp's needs a compiler: tools/compare_peers.py."""

import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from vtcore.oracle.comparison import compare
from vtcore.oracle.engines.openai_url import ServerEngine, ServerOptions
from vtcore.oracle.verdict import ARITHMETIC, Outcome

SECONDS = 60


@pytest.fixture(scope="module")
def url(model, tmp_path_factory):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = (tmp_path_factory.mktemp("live") / "log").open("w+")
    command = [sys.executable, "-m", "vtcore", "serve", model, "--port", str(port), "--providers", "reference"]
    process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        ready(f"http://127.0.0.1:{port}/health", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(SECONDS)
        log.close()


def ready(address, process):
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        assert process.poll() is None
        try:
            return urllib.request.urlopen(address, timeout=5).close()
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"nothing answers at {address}")


@pytest.mark.parametrize("forcing", ["score", "continue"])
def test_a_server_of_vtcore_is_exact(recording, url, forcing):
    engine = ServerEngine(url, recording, ServerOptions(forcing=forcing))
    found = compare(recording, engine, ARITHMETIC["float32"])
    assert {v.outcome for v in found.verdicts} == {Outcome.EXACT}, [v.reason for v in found.verdicts]
    assert max(v.largest_difference for v in found.verdicts) < 1e-4
    assert (found.engine["name"], found.engine["prompts"]) == ("vtcore", "token ids")
