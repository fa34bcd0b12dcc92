"""The server's processes: keys, origins, faults of the engine, and the end."""

import json
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.gate import Gate
from tests.patience import SECONDS
from tests.server.conftest import Server, serving
from vtcore.server.remote import PATIENCE

LONG = {"prompt": "abc", "max_tokens": 480, "ignore_eos": True}


def test_keys_and_origins(model, tmp_path):
    options = ("--api-key", "secret", "other", "--allowed-origins", "https://page.example")
    with serving(model, tmp_path, *options) as server:
        post = server.client.post
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "secret"}, {"Authorization": "Bearer \xe9"}):
            answer = post("/v1/completions", json={"prompt": "a"}, headers={k: v.encode("latin-1") for k, v in headers.items()})
            assert (answer.status_code, answer.json()["error"]["type"]) == (401, "AuthenticationError")
        assert post("/v1/completions", json={"prompt": "a"}, headers={"Authorization": "Bearer other"}).status_code == 200
        asked = {"Origin": "https://page.example", "Access-Control-Request-Method": "POST"}
        allowed = server.client.options("/v1/completions", headers=asked)
        assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (200, "https://page.example")
        exposed = post("/v1/completions", json={"prompt": "a"}, headers={"Origin": "https://page.example"}).headers
        assert exposed["access-control-expose-headers"] == "X-Request-Id, Retry-After"  # also of a refusal
        refused = server.client.options("/v1/completions", headers=asked | {"Origin": "https://other.example"})
        assert "access-control-allow-origin" not in refused.headers


def test_a_killed_engine_is_told_of_and_replaced(model, tmp_path):
    gate = Gate(tmp_path / "gate")
    with serving(model, tmp_path, *gate.options) as server:
        gate.shut(lookups=10)
        lines, started = [], threading.Event()

        def read():
            with server.client.stream("POST", "/v1/completions", json=LONG | {"stream": True}) as answer:
                for line in answer.iter_lines():
                    lines.append(line)
                    started.set()

        reader = threading.Thread(target=read)
        reader.start()
        assert started.wait(SECONDS)
        gate.keep_out()
        os.kill(server.engine(), signal.SIGKILL)
        gate.open()
        server.wait(503)
        refused = server.client.post("/v1/completions", json={"prompt": "a"})
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        reader.join(SECONDS)
        told = [line for line in lines if line]
        assert told[-1] == "data: [DONE]"
        assert json.loads(told[-2].removeprefix("data: "))["error"]["code"] == 503
        gate.let_in()
        server.wait(200)
        assert server.client.post("/v1/completions", json={"prompt": "a"}).status_code == 200


def test_a_server_whose_engine_keeps_dying_ends_with_an_error(model, tmp_path):
    """Whoever looks after the process, such as systemd, is then asked to start it anew."""
    gate = Gate(tmp_path / "gate")
    with serving(model, tmp_path, *gate.options) as server:
        gate.keep_out()  # none is seen to be ready, however late it is killed
        killed = set()
        end = time.monotonic() + SECONDS
        while server.process.poll() is None:
            assert time.monotonic() < end, f"{len(killed)} engines were killed: {server.said()}"
            for pid in set(server.engines()) - killed:
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            time.sleep(0.01)
        assert (server.process.returncode, len(killed)) == (1, PATIENCE + 1), server.said()
        assert "vtcore: error: the engine died 6 times in a row" in server.said()
        assert "Traceback" not in server.said()


def test_requests_that_meet_a_death_are_told_of_it(model, tmp_path):
    gate = Gate(tmp_path / "gate")
    with serving(model, tmp_path, *gate.options) as server, ThreadPoolExecutor(4) as pool:
        gate.shut()
        asked = [pool.submit(server.client.post, "/v1/completions", json={"prompt": "a"}) for _ in range(16)]
        server.wait_for_load(4)
        os.kill(server.engine(), signal.SIGKILL)
        gate.open()
        answers = [a.result() for a in asked]
        assert {a.status_code for a in answers} <= {200, 503}, [a.text for a in answers]
        assert {a.json()["error"]["code"] for a in answers[:4]} == {503}


def test_what_runs_at_the_end_is_finished(model, tmp_path):
    gate = Gate(tmp_path / "gate")
    server = Server(model, tmp_path, *gate.options)
    server.wait()
    gate.shut(lookups=10)
    answers = []
    reader = threading.Thread(target=lambda: answers.append(server.client.post("/v1/completions", json=LONG | {"max_tokens": 40})))
    reader.start()
    server.wait_for_load(1)
    server.process.terminate()
    gate.open()
    reader.join(SECONDS)
    assert answers[0].json()["usage"]["completion_tokens"] == 40
    assert server.stop() == 0


@pytest.mark.parametrize("ready", [True, False])
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_however_it_ends_its_engine_ends_too(model, tmp_path, ready, how, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    server = Server(model, tmp_path)
    try:
        if ready:
            server.wait()
        engines = [server.engine()]
        os.kill(server.process.pid, how)
        assert server.process.wait(SECONDS) == (0 if how == signal.SIGTERM else -how)
        end = time.monotonic() + SECONDS
        while any(alive(pid) for pid in engines):
            assert time.monotonic() < end, f"engine {engines} lives on"
            time.sleep(0.05)
        left = [path.name for path in tmp_path.iterdir() if path.name.startswith("vtcore-")]
        assert how == signal.SIGKILL or not left
    finally:
        server.stop()


def test_ctrl_c_while_it_starts_says_one_line(model, tmp_path):
    """A terminal sends it to the engine's process too, unless that is in a group of its own."""
    server = Server(model, tmp_path)
    try:
        end, own = time.monotonic() + SECONDS, os.getpgid(server.process.pid)
        while all(os.getpgid(engine) == own for engine in server.engines()):  # it leaves its parent's group just before it is the engine
            assert time.monotonic() < end, "the engine stays in the server's group"
            time.sleep(0.001)
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(SECONDS) == 130
        assert server.said() == "vtcore: interrupted\n"
    finally:
        server.stop()


def alive(pid):
    """Whether there is such a process that hasn't ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_model_that_cannot_be_loaded_ends_it_with_the_reason(model, tmp_path):
    server = Server(model, tmp_path, "--memory-limit", "1K")
    assert server.process.wait(SECONDS) != 0
    assert "vtcore: error: " in server.said()
    assert "Traceback" not in server.said()
    server.stop()


def test_a_full_queue_says_when_to_come_again_and_development_routes_are_there_if_asked_for(model, tmp_path):
    options = ("--max-num-seqs", "1", "--max-num-queued-reqs", "1", "--enable-server-dev-mode", "--scheduling-policy", "priority")
    gate = Gate(tmp_path / "gate")
    with serving(model, tmp_path, *options, *gate.options) as server, ThreadPoolExecutor(6) as pool:
        gate.shut()
        asked = [pool.submit(server.client.post, "/v1/completions", json=LONG | {"priority": i}) for i in range(6)]
        server.wait_for_load(6)
        gate.open()
        answers = [a.result() for a in asked]
        assert {a.status_code for a in answers} == {200, 503}
        refused = next(a for a in answers if a.status_code == 503)
        assert (refused.headers["retry-after"], refused.json()["error"]["type"]) == ("5", "ServiceUnavailableError")
        info = server.client.get("/server_info").json()
        assert (info["info"]["max_num_seqs"], info["restarts"], info["stats"]["running"]) == (1, 0, 0)
        assert server.client.post("/reset_prefix_cache").status_code == 200
