"""A real server, in a process of its own: vtcore's, which speaks as vLLM's does. llama.cpp's needs a compiler: tools/compare_peers.py."""

import pytest

from tests.server.conftest import serving
from vtcore.oracle.comparison import compare
from vtcore.oracle.engines.openai_url import ServerEngine, ServerOptions
from vtcore.oracle.verdict import ARITHMETIC, Outcome


@pytest.fixture(scope="module")
def url(model, tmp_path_factory):
    with serving(model, tmp_path_factory.mktemp("live"), "--providers", "reference", at_port=True) as server:
        yield server.address


@pytest.mark.parametrize("forcing", ["score", "continue"])
def test_a_server_of_vtcore_is_exact(recording, url, forcing):
    engine = ServerEngine(url, recording, ServerOptions(forcing=forcing))
    found = compare(recording, engine, ARITHMETIC["float32"])
    assert {v.outcome for v in found.verdicts} == {Outcome.EXACT}, [v.reason for v in found.verdicts]
    assert max(v.largest_difference for v in found.verdicts) < 1e-4
    assert (found.engine["name"], found.engine["prompts"]) == ("vtcore", "token ids")
