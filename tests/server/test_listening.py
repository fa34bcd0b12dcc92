"""Where the server listens: what can't be is said in one line, before a model is loaded."""

import socket
import subprocess
from contextlib import closing

import pytest

from vtcore.cli import main
from vtcore.errors import ArgumentError, VtcoreError
from vtcore.server.config import ServerConfig
from vtcore.server.listening import Listening, check_tls


@pytest.fixture
def taken():
    """A port at which somebody listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        yield other.getsockname()[1]


def test_a_port_that_is_taken(taken):
    with pytest.raises(VtcoreError, match=f"--host 127.0.0.1 --port {taken}: can't listen there: Address already in use"):
        Listening(port=taken)


def test_localhost_is_each_of_its_addresses_and_all_are_given_back():
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        free = other.getsockname()[1]
    for _ in range(2):
        with Listening("localhost", free) as listening:
            assert {s.getsockname()[1] for s in listening.sockets} == {free}
            assert listening.place == f"localhost:{free}"


@pytest.mark.parametrize("host", ["no such host", "host.invalid", "a" * 300])
def test_a_host_that_is_none(host):
    with pytest.raises(ArgumentError, match="is no address of this machine"):
        Listening(host, 1)


def test_a_unix_socket_is_taken_from_nobody_who_listens(tmp_path):
    path = tmp_path / "s"
    with Listening(uds=path) as listening:
        listening.sockets[0].listen()
        with pytest.raises(VtcoreError, match="another server listens there"):
            Listening(uds=path)
    assert not path.exists()


def test_one_that_a_killed_server_left_is_used_again(tmp_path):
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))
    with Listening(uds=path):
        assert path.is_socket()


def test_the_next_servers_socket_is_left_alone(tmp_path):
    path = tmp_path / "s"
    with Listening(uds=path):
        path.unlink()
        after = Listening(uds=path)
    assert path.exists()
    after.__exit__()


@pytest.mark.parametrize(
    ("name", "said"), [("f", "is there, and no socket"), ("n/s", "there is no directory"), ("x" * 150, "can't listen there")]
)
def test_paths_that_are_no_sockets(tmp_path, name, said):
    (tmp_path / "f").write_text("kept")
    with pytest.raises(VtcoreError, match=said):
        Listening(uds=tmp_path / name)
    assert (tmp_path / "f").read_text() == "kept"


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A key and its certificate."""
    directory = tmp_path_factory.mktemp("tls")
    key, certificate = directory / "key.pem", directory / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return key, certificate


def test_keys_and_certificates(pair, tmp_path):
    key, certificate = pair
    check_tls(None, None)
    check_tls(key, certificate)
    text = tmp_path / "text"
    text.write_text("no key")
    encrypted = tmp_path / "encrypted"
    subprocess.run(["openssl", "rsa", "-aes256", "-passout", "pass:word", "-in", key, "-out", encrypted], check=True, capture_output=True)
    for wrong, said in (
        ((key, None), "go together"),
        ((tmp_path / "none", certificate), "none: there is no such file"),
        ((text, certificate), "no TLS with"),
        ((key, text), "no TLS with"),
        ((encrypted, certificate), "the key is encrypted"),
    ):
        with pytest.raises(ArgumentError, match=said):
            check_tls(*wrong)


@pytest.mark.parametrize("origin", ["", "page.example", "https://page.example/", "https://", "https://a b", "**"])
def test_origins_that_no_browser_sends(origin):
    with pytest.raises(ArgumentError, match="allowed_origins"):
        ServerConfig(names=["m"], origins=[origin])


def test_origins_and_collectors_as_they_are_written():
    for origin in ("*", "null", "https://page.example", "http://localhost:3000", "http://[::1]:80", "chrome-extension://abcdef"):
        ServerConfig(names=["m"], origins=[origin])
    for url in ("http://localhost:4318/v1/traces", "https://user:word@collector.example/v1/traces?a=b", "http://[::1]:4318"):
        ServerConfig(names=["m"], traces_endpoint=url)
    for url in ("http://", "http://[bad", "grpc://localhost:4317", "localhost:4318", "http:///v1/traces"):
        with pytest.raises(ArgumentError, match="otlp_traces_endpoint"):
            ServerConfig(names=["m"], traces_endpoint=url)


def exit_status(arguments):
    """Of the command; argparse ends it by an exception."""
    try:
        return main(arguments)
    except SystemExit as ended:
        return ended.code


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--uds", "s", "--port", "80"], 2, "in place of --host and --port"),
        (["--uds", "s", "--host", "localhost"], 2, "in place of --host and --port"),
        (["--port", "65536"], 2, "the highest port"),
        (["--threads", "100000"], 2, "threads is 100000"),
        (["--max-num-batched-tokens", "1"], 2, "max_num_batched_tokens is 1"),
        (["--memory-limit", "1K"], 1, "memory"),
    ],
)
def test_faults_are_one_line_and_a_status(model, tmp_path, monkeypatch, capfd, arguments, code, said):
    monkeypatch.chdir(tmp_path)
    where = [] if "--uds" in arguments or "--port" in arguments else ["--uds", "s"]
    assert exit_status(["serve", str(model), *where, *arguments]) == code
    last = capfd.readouterr().err.splitlines()
    assert said in last[-1]
    assert sum("error:" in line for line in last) == 1
    assert not (tmp_path / "s").exists()
