import json

import numpy as np
import pytest

from tests.fakes import FarMemory, far_view
from vtcore import tensor
from vtcore.dispatch import Dispatcher
from vtcore.errors import DeclinedError, OpError, ProviderError
from vtcore.op import RUNNER, run_definition
from vtcore.ops import add, concat, paged_attention, rms_norm, scale, top_k, write_pages
from vtcore.ops.inputs import paged
from vtcore.provider import Attempt, Decline, Provider
from vtcore.providers.reference import provider as reference


def tensors(*arrays):
    return [tensor.of(np.asarray(a, np.float32)) for a in arrays]


def near(name="near"):
    """A provider on the host whose add takes two axes alone, and whose every result tells who made it."""
    provider = Provider(name)

    @provider.kernel(add, declines=lambda x, y: None if x.ndim == 2 else f"x has {x.ndim} axes; the kernel takes 2")
    def _add(x, y):
        return tensor.of(x.numpy() + y.numpy() + np.float32(100))

    return provider


def far(op, compute):
    """A provider with a memory of its own and one kernel, given and giving that memory's arrays."""
    provider = Provider("distant", FarMemory())

    @provider.kernel(op)
    def _kernel(**call):
        views = {n: far_view(v, provider.memory) if isinstance(v, tensor.Tensor) else v for n, v in call.items()}
        result = compute(**views)
        if result is None:
            return None
        out = tensor.empty(provider.memory, result.shape, result.dtype)
        far_view(out, provider.memory)[...] = result
        return out

    return provider


def test_the_first_provider_that_accepts_runs_it():
    x, y = tensors([[1, 2]], [[3, 4]])
    with Dispatcher([near("first"), near("second")]) as d:
        assert add(x, y).numpy().tolist() == [[104, 106]]
    assert dict(d.ran) == {("add", "first"): 1}
    assert not d.declines


def test_what_nobody_takes_falls_back_to_the_definition():
    x, y = tensors([1, 2], [3, 4])
    with Dispatcher([near("first"), near("second")]) as d:
        assert add(x, y).numpy().tolist() == [4, 6]
        assert scale(x, 2.0).numpy().tolist() == [2, 4]
    assert dict(d.ran) == {("add", "reference"): 1, ("scale", "reference"): 1}
    assert dict(d.declines) == {
        Decline(who, op, why): 1
        for who in ("first", "second")
        for op, why in (("add", "x has 1 axes; the kernel takes 2"), ("scale", "no kernel"))
    }
    assert not d.copies


def test_a_chain_may_name_the_reference():
    x, y = tensors([1], [2])
    with Dispatcher([reference]) as d:
        assert add(x, y).numpy().tolist() == [3]
    assert dict(d.ran) == {("add", "reference"): 1}


def test_strict_makes_the_first_decline_an_error():
    x, y = tensors([1], [2])
    with Dispatcher([near()], strict=True) as d, pytest.raises(DeclinedError) as raised:
        add(x, y)
    assert str(raised.value).startswith("strict: provider 'near' declined add: x has 1 axes; the kernel takes 2; without strict")
    assert isinstance(raised.value, ProviderError)
    assert not d.ran
    assert sum(d.declines.values()) == 1


def test_a_faster_way_that_was_not_taken_is_counted_and_no_error_under_strict():
    provider, passed = near(), [None, Decline("near", "add", "no faster library")]
    accept = provider.accept
    provider.accept = lambda op, call: Attempt(accept(op, call), passed[0])
    x, y = tensors([[1, 2]], [[3, 4]])
    dispatcher = Dispatcher([provider], strict=True)
    with dispatcher:
        add(x, y)
        assert not dispatcher.declines
        passed.reverse()
        assert add(x, y).numpy().tolist() == [[104, 106]]
    assert dispatcher.declines == {Decline("near", "add", "no faster library"): 1}
    assert dispatcher.ran == {("add", "near"): 2}


def test_a_dispatcher_is_in_charge_only_inside_its_with():
    x = np.float32([1])
    with Dispatcher([near("outer")]) as outer:
        with Dispatcher([near("inner")]) as inner:
            add(*tensors([[1]], [[1]]))
        add(*tensors([[1]], [[1]]))
    assert RUNNER.get() is run_definition
    assert add(x, x).tolist() == [2]
    assert (list(inner.ran), list(outer.ran)) == ([("add", "inner")], [("add", "outer")])


def test_it_steps_aside_when_a_kernel_raises():
    provider = Provider("broken")

    @provider.kernel(add)
    def _add(x, y):
        raise RuntimeError("lost the device")

    with pytest.raises(ProviderError, match="'broken': its kernel of add failed: RuntimeError: lost the device"), Dispatcher([provider]):
        add(*tensors([1], [2]))
    assert RUNNER.get() is run_definition


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (lambda x: tensor.of(np.zeros((1, 1), np.float32)), r"float32\[1 1\]"),
        (lambda x: tensor.of(np.zeros(2, np.float64)), r"float64\[2\]"),
        (lambda x: x.numpy(), "ndarray"),
        (lambda x: None, "nothing"),
        (lambda x: (x, x), r"float32\[2\], float32\[2\]"),
        (lambda x: [x], "list"),
    ],
)
def test_a_kernel_that_returns_something_else_is_named(result, words):
    provider = Provider("liar")

    @provider.kernel(add)
    def _add(x, y):
        return result(x)

    said = rf"'liar': its kernel of add gave {words}; Tensors are needed: float32\[2\]"
    with pytest.raises(ProviderError, match=said), Dispatcher([provider]):
        add(*tensors([1, 2], [2, 3]))


def test_arguments_are_named_before_a_kernel_sees_them():
    seen = {}
    provider = Provider("curious")

    @provider.kernel(rms_norm)
    def _norm(**call):
        seen.update(call)
        return call["x"]

    with Dispatcher([provider]):
        rms_norm(tensors([1, 2])[0], None, eps=1e-6)
        with pytest.raises(OpError, match="rms_norm takes x, weight, eps"):
            rms_norm(eps=1e-6)
    assert list(seen) == ["x", "weight", "eps", "offset", "groups"]
    assert (seen["offset"], seen["groups"]) == (0.0, 1)


def test_results_in_tuples_are_tensors():
    with Dispatcher():
        values, ids = top_k(tensors([3, 1, 2])[0], 2)
    assert (values.numpy().tolist(), ids.numpy().tolist()) == ([3, 2], [0, 2])


def test_arguments_are_brought_to_where_the_kernel_runs_and_counted():
    x, y = tensors(np.ones((2, 8)), np.ones(8))
    with Dispatcher([far(add, lambda x, y: x + y)]) as d:
        z = add(add(x, y), y)  # the first sum and the weight are there already
        assert dict(d.copies) == {("add", "host->far"): 2}
        assert dict(d.bytes) == {("add", "host->far"): 96}
        w = scale(z, 2.0)  # nobody has it: back to the host
        assert dict(d.copies) == {("add", "host->far"): 2, ("scale", "far->host"): 1}
        concat(w, w)
    assert w.numpy().tolist() == [[6] * 8] * 2
    assert sum(d.copies.values()) == 3
    assert dict(d.ran) == {("add", "distant"): 2, ("scale", "reference"): 1, ("concat", "reference"): 1}


def test_arrays_in_lists_are_brought_too():
    provider = far(add, None)
    x, y = tensors([1], [2])
    d = Dispatcher([provider])
    d.bring(add, {"x": [x, y], "y": (x,)}, provider.memory)
    assert all(provider.memory in t.storage.copies for t in (x, y))


def engine_call(call):
    return {n: tensor.of(v) if isinstance(v, np.ndarray) else v for n, v in call.items()}


def caches(call):
    """The call's pages as caches, each page with a truth of its own."""
    out = {}
    for name in ("k_pages", "v_pages"):
        out[name] = tensor.zeros(call[name].shape)
        out[name].numpy()[...] = call[name]
        out[name].storage.wrote(tensor.HOST)
    return out


@pytest.fixture
def batch():
    return paged(np.random.default_rng(0), tokens=(1, 1), lengths=(3, 6), heads=(2, 1), width=(4, 4), page=4)


def test_of_a_cache_only_the_pages_that_a_call_reads_are_brought(batch):
    want, page = paged_attention(**batch), 4 * 4 * 4
    provider = far(paged_attention, lambda **call: paged_attention.reference(**call))
    with Dispatcher([provider]) as d:
        arguments = engine_call(batch) | caches(batch)
        got = paged_attention(**arguments)
        np.testing.assert_array_equal(got.numpy(), want)
        used = len(np.unique(batch["table"]))
        rest = sum(v.nbytes for n, v in batch.items() if isinstance(v, np.ndarray) and not n.endswith("pages"))
        assert d.bytes["paged_attention", "host->far"] == 2 * used * page + rest
        before = sum(d.bytes.values())
        paged_attention(**arguments)
        assert sum(d.bytes.values()) == before
    assert used < len(batch["k_pages"])


def test_written_pages_are_true_only_where_they_were_written(batch):
    """A far write, then the host reads: only the pages that the slots name come back."""

    def write(pages, values, slots):
        write_pages.reference(pages, values, slots)

    pages, values = caches(batch)["k_pages"], tensor.of(np.full((2, 1, 4), 7, np.float32))
    with Dispatcher([far(write_pages, write)]) as d:
        assert write_pages(pages, values, tensor.of(np.array([5, -1], np.int32))) is None
        assert pages.storage.valid[tensor.HOST].tolist() == [True, False, True, True, True][: pages.shape[0]]
        got = pages.numpy(moved=d.moved)
        assert d.bytes["write_pages", "far->host"] == 64
    assert (got[1, 1] == 7).all()
    np.testing.assert_array_equal(got[2:], batch["k_pages"][2:])


def test_an_index_that_only_the_device_knows_touches_all_pages(batch):
    pages, memory = caches(batch)["k_pages"], FarMemory()
    slots = tensor.of(np.array([5], np.int32))
    slots.storage.at(memory)
    slots.storage.wrote(memory)
    provider = far(write_pages, lambda pages, values, slots: write_pages.reference(pages, values, slots))
    provider.memory = memory
    with Dispatcher([provider]) as d:
        write_pages(pages, tensor.of(np.full((1, 1, 4), 7, np.float32)), slots)
        assert d.bytes["write_pages", "host->far"] == pages.nbytes + 16
    assert not pages.storage.valid[tensor.HOST].any()


def test_a_report_says_what_ran_what_declined_and_what_was_copied():
    x, y = tensors([[1, 2]], [[3, 4]])
    with Dispatcher([near(), far(scale, lambda x, factor: x * np.float32(factor))]) as d:
        add(x, y)
        add(x, y)
        scale(x, 3.0)
        add(x.reshape(2), y.reshape(2))
    report = d.report()
    milliseconds = report.copied[0].milliseconds
    assert milliseconds >= 0
    assert report.json() == {
        "ran": [
            {"op": "add", "provider": "near", "calls": 2},
            {"op": "add", "provider": "reference", "calls": 1},
            {"op": "scale", "provider": "distant", "calls": 1},
        ],
        "declined": [
            {"op": "add", "provider": "distant", "reason": "no kernel", "calls": 1},
            {"op": "add", "provider": "near", "reason": "x has 1 axes; the kernel takes 2", "calls": 1},
            {"op": "scale", "provider": "near", "reason": "no kernel", "calls": 1},
        ],
        "copied": [{"op": "scale", "way": "host->far", "copies": 1, "nbytes": 8, "milliseconds": milliseconds}],
    }
    assert json.loads(json.dumps(report.json())) == report.json()
    lines = str(report).splitlines()
    assert lines[0] == "ran"
    assert "       2  add                  near" in lines
    assert "       1  add                  near: x has 1 axes; the kernel takes 2" in lines
    assert f"       1  scale                host->far  8 bytes, {milliseconds:.1f} ms" in lines


def test_an_empty_report_says_so():
    assert str(Dispatcher().report()).splitlines() == [
        *("ran", "       (nothing)", "declined", "       (nothing)", "copied between memories", "       (nothing)")
    ]
