"""Recorded steps over two memories: whatever part of them the host computes, a replay gives the bits of a step that is run op by op."""

import gc
from weakref import ref

import numpy as np
import pytest

from vtcore import LLM, SamplingParams
from vtcore.capture import Capture
from vtcore.conformance.golden import goldens
from vtcore.dispatch import Dispatcher
from vtcore.memory import HOST
from vtcore.ops import add, embedding, rms_norm, write_pages
from vtcore.providers import ProviderOptions
from vtcore.providers.opencl import make
from vtcore.providers.vulkan import STAGED
from vtcore.tensor import Inputs, bare, empty, of, zeros

DECLINING = """
from vtcore.providers.opencl import make as opencl

def make(options):
    provider = opencl(options)
    provider.device.shares = {shares}
    for name in {declined}:
        provider.kernels.pop(name, None)
    return provider
"""
GOLDENS = {g.name: g for g in goldens() if g.name in ("llama", "mamba2")}
TOKENS = 12
SPLITS = [(), ("rms_norm",), ("paged_attention", "selective_scan"), ("write_pages", "causal_conv")]
SPLITS.append(("add", "paged_attention", "write_pages", "selective_scan", "rope_angles", "argmax"))


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    return {name: g.write_safetensors(tmp_path_factory.mktemp(name)) for name, g in GOLDENS.items()}


def answers(path, golden, chain, capture):
    """Three of four prompts at once, in small steps: prefills of one stand between decodes of others."""
    small = {"block_size": 8, "max_num_batched_tokens": 16, "max_num_seqs": 3, "max_model_len": 128}
    with LLM(path, providers=chain, capture=capture, **small) as llm:
        params = SamplingParams(temperature=0, max_tokens=TOKENS, ignore_eos=True, logprobs=1)
        outputs = llm.generate([{"prompt_token_ids": c.prompt} for c in golden.cases], params)
        told = [[next(iter(step.values())).logprob for step in o.outputs[0].logprobs] for o in outputs]
        return [list(o.outputs[0].token_ids) for o in outputs], told, llm.report()


@pytest.fixture(scope="module")
def op_by_op():
    """What chains answered without recording, by golden and what is declined: where the bytes lie changes no bit."""
    return {}


def recorded(declined, shares=False):
    provider = make(ProviderOptions())
    provider.device.shares = shares
    for name in declined:
        del provider.kernels[name]
    return provider, Dispatcher([provider])


@pytest.mark.feature("Recorded decode steps")
@pytest.mark.parametrize("shares", [True, False], ids=["one memory", "two memories"])
@pytest.mark.parametrize("declined", SPLITS, ids=" ".join)
@pytest.mark.parametrize("name", GOLDENS)
def test_a_replay_equals_the_step(name, declined, shares, checkpoints, op_by_op, tmp_path):
    provider = tmp_path / "declining.py"
    provider.write_text(DECLINING.format(shares=shares, declined=declined))
    golden, chain = GOLDENS[name], f"{provider},portable"
    if (name, declined) not in op_by_op:
        op_by_op[name, declined] = answers(checkpoints[name], golden, chain, capture=False)
    tokens, told, _ = op_by_op[name, declined]
    again, replayed, report = answers(checkpoints[name], golden, chain, capture=True)
    assert tokens == again == [c.tokens[:TOKENS] for c in golden.cases]
    assert told == replayed
    assert any(r.provider == "portable" for r in report.ran if r.op in declined) == any(r.op in declined for r in report.ran)
    copied = {c.op: c.nbytes for c in report.copied if c.way == "opencl->host"}
    assert not any(copied.values()) if shares else all(copied.get(n) for n in declined if n in copied)


@pytest.mark.feature("Recorded decode steps")
@pytest.mark.parametrize("shares", [True, False], ids=["one memory", "two memories"])
@pytest.mark.parametrize("name", GOLDENS)
def test_a_replay_equals_the_step_on_vulkan(name, shares, checkpoints, tmp_path, monkeypatch):
    monkeypatch.setenv(STAGED, "0" if shares else "1")
    provider, declined, golden = tmp_path / "declining.py", SPLITS[-1], GOLDENS[name]
    provider.write_text(
        DECLINING.replace("opencl", "vulkan").replace("    provider.device.shares = {shares}\n", "").format(declined=declined)
    )
    tokens, told, _ = answers(checkpoints[name], golden, f"{provider},portable", capture=False)
    again, replayed, report = answers(checkpoints[name], golden, f"{provider},portable", capture=True)
    assert tokens == again == [c.tokens[:TOKENS] for c in golden.cases]
    assert told == replayed
    copied = {c.op: c.nbytes for c in report.copied if c.way == "vulkan->host"}
    assert copied
    assert any(copied.values()) != shares


@pytest.mark.parametrize("shares", [True, False], ids=["one memory", "two memories"])
@pytest.mark.parametrize("declined", [(), ("add",), ("rms_norm",)], ids=" ".join)
def test_a_step_reads_what_its_inputs_hold_now(declined, shares):
    _, dispatcher = recorded(declined, shares)
    inputs, weight = Inputs({"slots": np.array([0, 1])}), of(np.ones(8, np.float32))
    cache, x = zeros((2, 2, 8)), of(np.arange(16, dtype=np.float32).reshape(2, 8))

    def forward():
        y = add(rms_norm(x, weight, 1e-6), x)
        write_pages(cache, y, inputs.tensors["slots"])
        return add(y, y)

    with dispatcher, Capture(dispatcher, inputs) as step:
        out = forward()
    first = out.numpy().copy()
    with dispatcher:
        for slots in ([3, 1], [-1, 2], [0, 3]):
            for row in (x.storage.at(HOST), out.storage.at(HOST)):
                assert row is not None
            inputs.update({"slots": np.array(slots)})
            step.replay()
            assert np.array_equal(out.numpy(), first)
            seen = cache.numpy().reshape(4, 8)
            for token, slot in enumerate(slots):
                assert slot < 0 or np.array_equal(seen[slot] * 2, first[token])


def test_a_weight_that_is_first_uploaded_in_a_step_stays_its_own():
    provider, dispatcher = recorded(())
    x, late = of(np.full((4, 64), 2, np.float32)), of(np.arange(256, dtype=np.float32).reshape(4, 64))
    with dispatcher, Capture(dispatcher) as step:
        for _ in range(3):
            add(x, x)  # temporaries that are given back before the weight comes
        out = add(add(x, x), late)
    assert late.storage.copies[provider.device].pool is provider.device.lasting
    with dispatcher:
        step.replay()
        assert np.array_equal(out.numpy(), 4 + np.arange(256).reshape(4, 64))
        assert np.array_equal(late.numpy(), np.arange(256).reshape(4, 64))


def test_a_replay_writes_what_the_host_gives_once_the_device_has_read_what_it_gave_before(monkeypatch):
    provider, dispatcher = recorded(("embedding",), shares=True)
    inputs, table = Inputs({"ids": np.array([1, 2])}), of(np.arange(32, dtype=np.float32).reshape(4, 8))
    with dispatcher, Capture(dispatcher, inputs) as step:
        x = embedding(table, inputs.tensors["ids"])
        out = add(x, x)
    waits, wait = [], provider.device.synchronize
    monkeypatch.setattr(provider.device, "synchronize", lambda: waits.append(bare(x).copy()) or wait())
    with dispatcher:
        inputs.update({"ids": np.array([3, 0])})
        step.replay()
    assert [w.tolist() for w in waits] == [bare(table)[[1, 2]].tolist()]  # before it was written anew
    assert np.array_equal(out.numpy(), 2 * bare(table)[[3, 0]])


def test_a_result_that_was_read_is_read_anew_after_a_replay():
    _, dispatcher = recorded(("add",))
    inputs = Inputs({"slots": np.array([0])})
    cache, x = zeros((1, 1, 8)), of(np.ones((1, 8), np.float32))
    with dispatcher, Capture(dispatcher, inputs) as step:
        write_pages(cache, x, inputs.tensors["slots"])
        out = rms_norm(cache.reshape(1, 8), None, 0.0)
    assert np.array_equal(out.numpy(), np.ones((1, 8)))
    x.numpy()[:] = -3
    x.storage.wrote(HOST)
    with dispatcher:
        x.storage.at(dispatcher.providers[0].memory)
        step.replay()
    assert np.array_equal(out.numpy(), -np.ones((1, 8)))


def test_what_the_host_writes_after_an_upload_changes_nothing_there():
    device = recorded(())[0].device
    host = np.arange(64, dtype=np.uint8)
    held = device.alloc(64)
    device.upload(held, 0, host)
    host[:] = 0
    back = np.empty(64, np.uint8)
    device.download(held, 0, back)
    assert np.array_equal(back, np.arange(64))


@pytest.mark.parametrize("shares", [True, False], ids=["one memory", "two memories"])
def test_buffers_go_back_once_nobody_looks_at_them(shares):
    provider, dispatcher = recorded((), shares)
    device = provider.device
    with dispatcher:
        x = of(np.ones((4, 64), np.float32))
        for _ in range(8):
            y = add(x, x)
            kept = y.numpy()
        made = device.made
        for _ in range(8):
            add(add(x, x), x)
        assert device.made - made <= 4 * 1024
    del x, y
    assert (kept == 2).all()
    device.synchronize()
    assert device.live == 0


def test_empty_results_need_no_launch():
    provider, dispatcher = recorded(())
    with dispatcher:
        assert rms_norm(of(np.zeros((0, 8), np.float32)), None, 1e-6).numpy().shape == (0, 8)
    assert provider.device.live == 0
    assert empty(provider.device, (0, 8)).shape == (0, 8)


def test_what_a_recorded_step_took_goes_with_it():
    provider, dispatcher = recorded(())
    x = of(np.ones((4, 64), np.float32))
    with dispatcher:
        add(x, x)
        before = provider.device.made
        with Capture(dispatcher) as step:
            add(add(x, x), x)
        assert step.nbytes
        assert provider.device.made > before
        del step
        assert provider.device.made == before


@pytest.mark.parametrize("declined", [(), ("add",), ("write_pages",)], ids=" ".join)
def test_what_nobody_replays_any_more_goes_without_the_collector(declined):
    provider, dispatcher = recorded(declined)
    inputs, cache, x = Inputs({"slots": np.array([1])}), zeros((2, 1, 8)), of(np.ones((1, 8), np.float32))

    def step():
        with dispatcher, Capture(dispatcher, inputs) as capture:
            write_pages(cache, add(add(x, x), x), inputs.tensors["slots"])
        return ref(capture)

    step()
    gc.collect()
    gc.disable()
    try:
        made, host = provider.device.made, HOST.made
        assert step()() is None
        assert (provider.device.made, HOST.made) == (made, host)
    finally:
        gc.enable()
