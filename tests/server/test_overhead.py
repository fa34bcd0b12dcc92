"""tools/bench_server.py: a server against its engine alone."""

import bench_server
import pytest
from peers.streams import answers

from tests.server.conftest import serving

OPTIONS = ("--streams", "2", "--prompt", "8", "--tokens", "4", "--vocabulary", "200", "--rounds", "1", "--threads", "1")


def test_it_measures_a_server_its_engine_and_another_server(model, tmp_path, capsys):
    with serving(model, tmp_path, at_port=True) as other:
        assert bench_server.main([str(model), *OPTIONS, "--against", other.address, "--wanted", "1e9"]) == 1
    said = capsys.readouterr().out
    assert said.count("tokens/s") == 1  # the round before the one that counts is not shown
    assert "served, of the engine's own rate: " in said
    assert f"served, to {other.address}: " in said


def test_a_stream_that_breaks_off_is_no_answer():
    whole = b'HTTP/1.1 200 OK\r\n\r\n1f\r\ndata: {"usage": {"completion_tokens": 3}}\n\n\r\ne\r\ndata: [DONE]\n\n\r\n0\r\n\r\n'
    assert answers(whole) == 3
    with pytest.raises(AssertionError, match="200 OK"):
        answers(whole.partition(b"e\r\ndata: [DONE]")[0])
