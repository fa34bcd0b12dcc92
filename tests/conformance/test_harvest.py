"""Real calls are kept as cases and run again."""

import numpy as np
import pytest

from tests.checkpoints import random_llama
from vtcore import LLM, SamplingParams
from vtcore.conformance.case import cases
from vtcore.conformance.check import run
from vtcore.conformance.harvest import Harvest, parse
from vtcore.conformance.saved import load_all
from vtcore.dispatch import Dispatcher
from vtcore.errors import ArgumentError
from vtcore.op import REGISTRY
from vtcore.providers import find
from vtcore.quant.blocks import Blocks
from vtcore.tensor import of
from vtcore.watched import dispatcher_of


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return random_llama(tmp_path_factory.mktemp("captured"))


def harvested(model, directory, wanted, **options):
    harvest = Harvest(wanted, directory, {"model": "tiny"})
    with LLM(model, threads=1, **options) as llm, harvest.of(dispatcher_of(llm.engine)):
        llm.generate([{"prompt_token_ids": [5, 6, 7]}], SamplingParams(temperature=0, max_tokens=6))
    return harvest, list(load_all(directory))


@pytest.mark.parametrize("capture", [True, False])
def test_real_calls_are_kept_and_run_again(model, tmp_path, capture):
    wanted = {"rms_norm": 2, "linear": 4, "paged_attention": 2, "write_pages": 1, "argmax": 5}
    harvest, found = harvested(model, tmp_path / "c", wanted, capture=capture)
    assert {op: harvest.kept[op] for op in wanted} == {"rms_norm": 2, "linear": 4, "paged_attention": 2, "write_pages": 1, "argmax": 1}
    assert harvest.missing() == ["captured 1 of 5 calls of argmax: no more came that differ in shapes or numbers"]
    assert len({(c.op.name, repr(c)) for c in found}) == len(found) == 10
    provider = find("portable")
    assert {run(provider, case).outcome for case in found} == {"pass"}
    provider.close()


def test_the_pages_that_a_call_reads_are_those_of_the_model(model, tmp_path):
    _, found = harvested(model, tmp_path / "c", {"paged_attention": 1, "write_pages": 1})
    attention, write = found
    assert attention.call["k_pages"].shape[0] == 2  # the page of zeros, and the first that is given out
    assert np.abs(attention.call["k_pages"][1, :3]).min() > 0
    assert write.call["pages"].shape == attention.call["k_pages"].shape
    assert np.array_equal(attention.call["k_pages"][1, :3], write.call["values"])


def test_what_is_too_large_is_said_and_left_out(model, tmp_path, monkeypatch):
    monkeypatch.setattr("vtcore.conformance.harvest.MOST_BYTES", 1 << 10)
    harvest, found = harvested(model, tmp_path / "c", {"rms_norm": 1, "linear": 1})
    assert [c.op.name for c in found] == ["rms_norm"]
    assert "a call of linear takes 0 MiB and was not captured" in harvest.notes[0]


@pytest.mark.parametrize("text", ["rms_norm", "rms_norm:", "rms_norm:x", "rms_norm:-1"])
def test_what_to_capture_is_written_one_way(text):
    with pytest.raises(ArgumentError, match="write OP:N"):
        parse([text])


def test_wrong_wishes_are_refused(tmp_path):
    with pytest.raises(ArgumentError, match="each op once"):
        parse(["add:1", "add:2"])
    with pytest.raises(ArgumentError, match="there is no op 'norm' to capture"):
        Harvest({"norm": 1}, tmp_path)
    with pytest.raises(ArgumentError, match="1 to 1000 calls"):
        Harvest({"add": 0}, tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ArgumentError, match="not an empty directory"):
        Harvest({"add": 1}, tmp_path)


def as_tensors(value):
    if isinstance(value, (list, tuple)):
        return type(value)(map(as_tensors, value))
    return of(value.copy() if isinstance(value, np.ndarray) else value) if isinstance(value, (np.ndarray, Blocks)) else value


def results(op, call):
    """The results, and what is written of its first rows, as far as both have them."""
    copies = {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in call.items()}
    out = op.reference(**copies)
    return [*(out if isinstance(out, tuple) else () if out is None else (out,))], {n: copies[n] for n in op.writes if copies[n] is not None}


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_a_captured_call_gives_what_the_call_gave(name, tmp_path):
    op, found = REGISTRY[name], list(cases(REGISTRY[name]))[:12]
    harvest, dispatcher = Harvest({name: len(found)}, tmp_path / "c"), Dispatcher()
    with harvest.of(dispatcher), dispatcher:
        kept = [(case, harvest.kept[name], op(**{n: as_tensors(v) for n, v in case.call.items()})) for case in found]
    numbers = [before for _, before, _ in kept] + [harvest.kept[name]]
    distinct = [case for (case, before, _), after in zip(kept, numbers[1:], strict=True) if after > before]
    back = list(load_all(tmp_path / "c"))
    assert len(back) == len(distinct) > 0
    for case, again in zip(distinct, back, strict=True):
        (want, wrote), (got, wrote_again) = results(op, case.call), results(op, again.call)
        assert all(np.array_equal(g, w, equal_nan=True) for g, w in zip(got, want, strict=True)), case
        for argument, rows in wrote_again.items():
            touched = op.touches[argument](**case.call)
            assert np.array_equal(rows[touched], wrote[argument][touched], equal_nan=True), case
