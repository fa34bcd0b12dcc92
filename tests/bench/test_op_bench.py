"""Timed kernels: what they do is counted, and one that cheats is caught and named."""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.fakes import FarMemory, far_view
from vtcore import tensor
from vtcore.bench.op_bench import bench
from vtcore.bench.op_calls import shaped
from vtcore.bench.op_inputs import Inputs
from vtcore.bench.op_show import show
from vtcore.bench.op_timing import Effort
from vtcore.bench.op_work import flops, nbytes
from vtcore.bench.roofline import Roofline, roofline
from vtcore.conformance.case import cases
from vtcore.errors import ArgumentError, ProviderError
from vtcore.op import REGISTRY
from vtcore.provider import Provider
from vtcore.providers import find

SHORT = Effort(rounds=4, seconds=0, judging=1)
ROOF = Roofline(10e9, 100e9, 2)


def provider(name, kernel, **more):
    made = Provider("mine")
    made.kernel(REGISTRY[name], **more)(kernel)
    return made


def timed(name, kernel, call=None, **more):
    op = REGISTRY[name]
    base = call or shaped(op, {"T": 4, "H": 64})
    return bench(op, base, [provider(name, kernel, **more)], SHORT, lambda: ROOF)


def right(name, **call):
    return REGISTRY[name].reference(**{n: tensor.bare(v) for n, v in call.items()})


def norm(**call):
    return tensor.of(right("rms_norm", **call))


def test_a_right_kernel_has_a_speed():
    result = timed("rms_norm", norm)
    (speed,) = result.speeds
    assert not result.wrong
    assert (speed.calls, speed.checked > 2) == (4 * result.sets, True)
    assert 0 < speed.least <= speed.seconds <= speed.most
    assert speed.gbytes == pytest.approx(result.nbytes / speed.seconds / 1e9)
    assert (speed.share, speed.gflops) == (None, None)
    assert "fit in the cache" in speed.unshared
    assert "rms_norm(x=float32[4 64], weight=float32[64]" in "\n".join(show(result))


class Cached:
    """Keeps a result by where the input lies."""

    def __init__(self):
        self.results = {}

    def __call__(self, x, **rest):
        if id(x.storage) not in self.results:
            self.results[id(x.storage)] = right("rms_norm", x=x, **rest)
        return tensor.of(self.results[id(x.storage)].copy())


class Tired:
    """Right for the first calls."""

    def __init__(self, calls):
        self.left = calls

    def __call__(self, x, **rest):
        self.left -= 1
        return norm(x=x, **rest) if self.left > 0 else tensor.of(np.zeros(x.shape, np.float32))


class Reusing:
    """Writes each result where the last one was."""

    def __init__(self):
        self.out = tensor.of(np.zeros((4, 64), np.float32))

    def __call__(self, **call):
        self.out.numpy()[...] = right("rms_norm", **call)
        return self.out


class Previous:
    """Gives the result of the call before."""

    def __init__(self):
        self.last = np.zeros((4, 64), np.float32)

    def __call__(self, **call):
        self.last, given = right("rms_norm", **call), self.last
        return tensor.of(given)


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (Cached(), "goes by where its inputs lie, not by what they hold"),
        (Tired(64 + 3 * 64), "the first calls were right: the kernel is wrong later on"),
        (Reusing(), "each result must be fresh"),
        (Previous(), "the first calls were wrong too"),
        (lambda x, **_: tensor.of(np.zeros(x.shape, np.float32)), "the first calls were wrong too"),
        (lambda x, **_: tensor.of(np.zeros((4, 63), np.float32)), "it gave float32[4, 63]; the op gives float32[4, 64]"),
        (lambda x, **_: None, "it gave nothing"),
    ],
    ids=["cached", "tired", "reusing", "previous", "zeros", "misshapen", "nothing"],
)
def test_a_kernel_that_cheats_is_named_and_has_no_speed(kernel, words):
    result = timed("rms_norm", kernel)
    assert result.wrong
    assert words in result.speeds[0].wrong
    text = "\n".join(show(result))
    assert "WRONG: mine: timed call" in text
    assert "a wrong kernel has no speed" in text


def test_what_is_written_in_place_is_judged_too():
    case = next(cases(REGISTRY["write_pages"]))

    def write(pages, values, slots):
        right("write_pages", pages=pages, values=values, slots=slots)

    assert not timed("write_pages", write, case.call).wrong
    assert timed("write_pages", lambda pages, values, slots: None, case.call).wrong


def test_every_op_can_be_timed_by_a_sample(monkeypatch):
    monkeypatch.setattr("vtcore.bench.op_inputs.SETS", 3)
    reference = find("reference")
    for op in REGISTRY.values():
        base = next(case.call for case in cases(op))
        assert not bench(op, base, [reference], Effort(rounds=1, seconds=0, judging=0), lambda: ROOF).wrong, op.name


def test_providers_are_compared_round_by_round(monkeypatch):
    op, clock = REGISTRY["rms_norm"], [0.0]
    monkeypatch.setattr("vtcore.bench.op_timing.time", SimpleNamespace(perf_counter=lambda: clock[0]))

    def taking(name, seconds):
        made = Provider(name)

        @made.kernel(op)
        def run(**call):
            clock[0] += seconds
            return norm(**call)

        return made

    result = bench(op, shaped(op, {"T": 4, "H": 64}), [taking("quick", 1.0), taking("slow", 3.0)], SHORT, lambda: ROOF)
    (ratio,) = result.ratios
    assert (ratio.against, ratio.least, ratio.median, ratio.most) == ("slow", 3.0, 3.0, 3.0)
    assert "quick is" in "\n".join(show(result))
    assert result.json()["speeds"][1]["provider"] == "slow"


def test_a_kernel_of_another_memory_is_timed_and_judged_there():
    far = Provider("far", FarMemory())

    def add(x, y):
        out = tensor.empty(far.memory, x.shape)
        far_view(out, far.memory)[...] = far_view(x, far.memory) + far_view(y, far.memory)
        return out

    def write(pages, values, slots):
        REGISTRY["write_pages"].reference(*(far_view(v, far.memory) for v in (pages, values, slots)))

    far.kernel(REGISTRY["add"])(add)
    far.kernel(REGISTRY["write_pages"])(write)
    for name in ("add", "write_pages"):
        base = next(cases(REGISTRY[name])).call
        (speed,) = bench(REGISTRY[name], base, [far], SHORT, lambda: ROOF).speeds
        assert speed.wrong == ""
        assert "computes in memory 'far'" in speed.unshared


def test_a_decline_is_an_error_with_its_reason():
    with pytest.raises(ProviderError, match="declines this call of rms_norm: not today"):
        timed("rms_norm", norm, declines=lambda **_: "not today")


def test_values_are_new_each_round_and_weights_stay():
    op = REGISTRY["linear"]
    inputs = Inputs(op, shaped(op, {"T": 2, "N": 8, "K": 64}, "Q8_0"), 2)
    before = [tensor.bare(v).copy() for v in (inputs.calls[0]["x"], inputs.calls[1]["x"])]
    weight = inputs.calls[0]["weight"].numpy().data.copy()
    inputs.renew()
    assert not np.array_equal(before[0], before[1])
    assert not np.array_equal(before[0], inputs.calls[0]["x"].numpy())
    assert np.array_equal(weight, inputs.calls[0]["weight"].numpy().data)
    assert not np.array_equal(weight, inputs.calls[1]["weight"].numpy().data)
    assert np.array_equal(inputs.values(1, 0)["x"], inputs.calls[0]["x"].numpy())


@pytest.mark.parametrize(
    ("name", "sizes", "dtype", "wanted"),
    [
        ("linear", {"T": 3, "N": 8, "K": 64}, "f32", (4 * (3 * 64 + 8 * 64 + 3 * 8), 2 * 3 * 8 * 64)),
        ("linear", {"T": 1, "N": 8, "K": 64}, "Q8_0", (4 * 64 + 8 * 2 * 34 + 4 * 8, 2 * 8 * 64)),
        ("rms_norm", {"T": 3, "H": 32}, "bf16", (2 * 3 * 32 + 2 * 32 + 4 * 3 * 32, None)),
        ("embedding", {"T": 3, "N": 100, "H": 16}, "f32", (3 * 16 * 4 + 3 * 4 + 3 * 16 * 4, None)),
        ("paged_attention", {"R": 2, "L": 64, "Hq": 4, "Hk": 2, "D": 8, "S": 16}, "f32", (None, 2 * 4 * 16 * 2 * 64)),
        ("attention", {}, "sample", (None, 2 * 1 * (80 + 80) * 25)),
        ("per_head", {"T": 2, "H": 3, "A": 4, "B": 5}, "f32", (4 * (24 + 60 + 30), 2 * 2 * 60)),
    ],
)
def test_work_is_what_a_call_must_do(name, sizes, dtype, wanted):
    op = REGISTRY[name]
    call = next(cases(op)).call if dtype == "sample" else shaped(op, sizes, dtype)
    op.validate(call)
    assert flops(op, call) == wanted[1]
    assert wanted[0] in (None, nbytes(op, call))


def test_pages_and_experts_count_as_far_as_they_are_read():
    attention = REGISTRY["paged_attention"]
    call = shaped(attention, {"R": 1, "L": 64, "Hq": 4, "Hk": 2, "D": 8, "S": 16})
    page = 16 * 2 * 8 * 4
    others = sum(call[n].nbytes for n in ("q", "table", "starts", "lengths", "until")) + 4 * 8 * 4
    assert nbytes(attention, call) == others + 2 * page * len(np.unique(call["table"]))
    experts = REGISTRY["experts"]
    call = shaped(experts, {"T": 2, "k": 2, "E": 50, "N": 8, "K": 8, "M": 8})
    asked = len(np.unique(call["ids"]))
    assert nbytes(experts, call) == sum(call[n].nbytes for n in ("x", "weights", "ids")) + asked * 3 * 64 * 4 + 2 * 8 * 4
    assert flops(experts, call) == 2 * 4 * 3 * 64


@pytest.mark.parametrize(
    ("name", "sizes", "more", "words"),
    [
        ("linear", {"T": 3}, {}, "--shape lacks K, N; linear needs sizes for K, N, T"),
        ("linear", {"T": 3, "N": 8, "K": 64, "Z": 1}, {}, "--shape names Z"),
        ("linear", {"T": 3, "N": 8, "K": 60}, {"dtype": "Q8_0"}, "a multiple of 32"),
        ("linear", {"T": 3, "N": 8, "K": 64}, {"dtype": "f64"}, "dtype is 'f64' (nearest: f16); it must be one of f32"),
        ("rms_norm", {"T": 3, "H": 64}, {"dtype": "Q8_0"}, "can't be Q8_0"),
        ("rms_norm", {"T": 3, "H": 64}, {"given": {"epsilon": 1}}, "has no number 'epsilon'; it has eps, offset, groups"),
        ("gated_delta", dict.fromkeys("TGDHVdNR", 4), {}, "integers that hang together (source): time a sample"),
        ("paged_attention", {"R": 1}, {}, "it takes R, L, Hq, Hk, D and perhaps"),
        ("paged_attention", {"R": 1, "L": 2, "T": 3, "Hq": 1, "Hk": 1, "D": 8}, {}, "T is 3; it must be from 1 to L, 2"),
    ],
)
def test_wrong_sizes_are_refused_in_words(name, sizes, more, words):
    with pytest.raises(ArgumentError) as refused:
        shaped(REGISTRY[name], sizes, **more)
    assert words in str(refused.value)


def test_the_roofline_is_measured_and_bounds():
    roof = roofline(threads=1, passes=1)
    assert 1e6 < roof.bandwidth < 1e13  # of any machine, also one that does something else in the middle
    assert 1e6 < roof.flops < 1e13
    assert (ROOF.bound(10, 10), ROOF.bound(10, 1000)) == ("memory", "arithmetic")
    assert ROOF.seconds(10, 1000) == pytest.approx(1e-8)
    assert ROOF.better(Roofline(20e9, 50e9, 2)) == Roofline(20e9, 100e9, 2)
