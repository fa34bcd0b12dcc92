"""`linear` by cuBLASLt under fast numerics, on stand-ins for the driver and the library; the kernels around it are the real ones."""

import gc
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.providers.cuda.fake_cublas import NAMES, fast_provider
from vtcore import ops
from vtcore.assembly import limit_of
from vtcore.capture import Capture
from vtcore.conformance.case import cases
from vtcore.conformance.trial import run
from vtcore.dispatch import Dispatcher
from vtcore.errors import LibraryError, ProviderUnavailableError
from vtcore.numerics import NO_PRODUCTS, PRODUCTS
from vtcore.placement import Placement
from vtcore.provider import Decline
from vtcore.providers.cuda import cublaslt, nvrtc, products
from vtcore.providers.kernels.targets import cuda as target
from vtcore.tensor import Tensor, of

DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
INSTEAD = products.INSTEAD


class Here:
    """A provider on stand-ins."""

    def __init__(self, load=None):
        self.provider, self.module, self.library = fast_provider(load)
        self.device = self.provider.device
        self.dispatcher = Dispatcher([self.provider], strict=True)

    def linear(self, *args):
        with self.dispatcher:
            return ops.linear(*args)

    @property
    def reasons(self):
        return {d.reason.removesuffix(INSTEAD) for d in self.dispatcher.declines}


@pytest.fixture
def here():
    return Here()


def normal(*shape, dtype="float32", seed=0, magnitude=1.0):
    return (np.random.default_rng(seed).standard_normal(shape) * magnitude).astype(DTYPES[dtype])


def hold(here, x, weight, bias=None):
    """The result against the definition, within the tolerance for 64 terms, of the sum of their magnitudes: whatever cancels."""
    held = [of(v) if isinstance(v, np.ndarray) else v for v in (x, weight, bias)]
    got = here.linear(*held)
    x, weight, bias = (v.numpy() if isinstance(v, Tensor) else v for v in held)
    want = ops.linear(x, weight, bias)
    terms = ops.linear(np.abs(x), np.abs(weight), None if bias is None else np.abs(bias))
    assert got.shape == want.shape
    assert got.contiguous
    assert (np.abs(got.numpy() - want) <= 4e-6 * terms + 1e-43).all()  # of subnormal numbers each product is rounded


def test_ops_samples_come_out_right(here):
    dense = [case for case in cases(ops.linear) if str(case.call["weight"].dtype) in DTYPES]
    assert {run(here.provider, case).outcome for case in dense} == {"pass"}
    assert here.library.multiplied > 0


SHARED = Here()  # its kernels are made once


@given(
    rows=st.integers(16, 40),
    n=st.integers(1, 40),
    k=st.integers(1, 70),
    dtype=st.sampled_from(list(DTYPES)),
    biased=st.booleans(),
    gaps=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    begins=st.tuples(st.integers(0, 5), st.integers(0, 5)),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_any_shape_any_stride_any_beginning(rows, n, k, dtype, biased, gaps, begins, seed):
    x = of(normal(begins[0] + rows, k + gaps[0], seed=seed))[begins[0] :, :k]
    weight = of(normal(begins[1] + n, k + gaps[1], dtype=dtype, seed=seed + 1))[begins[1] :, gaps[1] :]
    before = SHARED.library.multiplied
    hold(SHARED, x, weight, of(normal(n, seed=seed + 2)) if biased else None)
    assert SHARED.library.multiplied == before + 1
    assert not SHARED.reasons


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("magnitude", [1e-41, 1e-6, 1e6, 1e36])
def test_rows_of_any_magnitude_lose_nothing(here, dtype, magnitude):
    x = normal(20, 64, magnitude=magnitude)
    x[3] *= np.float32(1e-3)
    x[4] = 0
    hold(here, x, normal(8, 64, dtype=dtype, seed=1, magnitude=0.1))


@pytest.mark.parametrize(("dtype", "lost"), [("float32", 0), ("bfloat16", 0), ("float16", 2**-23)])
def test_rows_times_one_come_back(here, dtype, lost):
    x = normal(20, 48) * np.exp2(np.arange(20, dtype=np.float32) * 10 - 100)[:, None]
    got = here.linear(of(x), of(np.eye(48).astype(DTYPES[dtype]))).numpy()
    assert (np.abs(got - x) <= lost * np.abs(x).max(-1, keepdims=True)).all()


def test_more_than_two_axes_and_rows_that_overlap(here):
    hold(here, of(normal(3, 7, 24)), of(normal(5, 24, dtype="bfloat16")))
    windows = Tensor(of(normal(64)).storage, (20, 24), np.dtype(np.float32), (1, 1))
    hold(here, windows, of(normal(5, 24)))
    hold(here, windows, of(normal(5, 24, dtype="float16")))
    hold(here, of(normal(24, 20)).transpose(1, 0), of(normal(5, 24)))
    assert not here.reasons


def test_what_is_not_finite_stays_in_its_row(here):
    x, weight = normal(16, 8), np.abs(normal(4, 8, dtype="float16"))
    x[2, 3], x[5, 1] = np.inf, np.nan
    got = here.linear(of(x), of(weight)).numpy()
    assert np.isposinf(got[2]).all()
    assert np.isnan(got[5]).all()
    assert np.isfinite(np.delete(got, [2, 5], 0)).all()


@pytest.mark.parametrize(
    ("x", "weight", "reason"),
    [
        (normal(15, 8), normal(4, 8), "fewer than 16 rows"),
        (normal(16, 8), normal(0, 8), r"weight \[0 8\] is empty"),
        (of(normal(16, 8)), of(normal(8, 4)).transpose(1, 0), "the weight's rows don't follow each other in memory"),
        (of(normal(16, 8)), of(normal(4, 8))[::-1], "the weight's rows don't follow each other in memory"),
    ],
)
def test_what_doesn_t_suit_it_the_own_kernel_computes(here, x, weight, reason):
    hold(here, x, weight)
    (said,) = here.reasons
    assert said == reason.replace("\\", "")
    assert here.library.multiplied == 0


def test_quantised_weights_are_not_for_it(here):
    case = next(c for c in cases(ops.linear) if "Q8_0" in str(c.call["weight"].dtype))
    x, weight = of(np.repeat(case.call["x"], 16, 0)), of(case.call["weight"])
    here.linear(x, weight)
    assert here.reasons == {"weight is Q8_0; cuBLASLt multiplies by float32, float16, bfloat16"}


def test_a_weight_in_parts_is_not_for_it(here):
    here.device.limits = replace(here.device.limits, binding=8192)
    hold(here, normal(16, 64), normal(100, 64))
    (said,) = here.reasons
    assert said == "weight: its storage has 25,600 bytes; a kernel of this device sees at most 8,192"


def test_a_shape_s_algorithm_is_asked_for_once(here):
    x, weight = of(normal(16, 8)), of(normal(4, 8))
    for _ in range(3):
        here.linear(x, weight)
    assert (here.library.asked, here.library.multiplied) == (1, 3)
    here.linear(of(normal(17, 8)), weight)
    assert here.library.asked == 2


def step(x, weight, other):
    return ops.linear(ops.rms_norm(ops.linear(x, weight), of(np.ones(24, np.float32)), 1e-6), other)


def recorded(here):
    """A step of kernels and products, recorded, and run again with other numbers: what it gives, and what it should."""
    x, weight, other = of(normal(16, 24)), of(normal(24, 24, dtype="bfloat16")), of(normal(8, 24, dtype="float16"))
    with here.dispatcher, Capture(here.dispatcher) as capture:
        y = step(x, weight, other)
    x.numpy()[:] = normal(16, 24, seed=9)
    x.storage.wrote(next(m for m in x.storage.copies if m.name == "host"))
    x.storage.at(here.device)
    before = len(here.module.calls)
    capture.replay()
    with here.dispatcher:
        return y.numpy().copy(), step(x, weight, other).numpy(), here.module.calls[before:]


def test_a_recorded_step_is_one_graph_products_and_all(here):
    got, want, calls = recorded(here)
    assert np.array_equal(got, want)
    assert calls.count("cuGraphLaunch") == 1
    assert here.library.multiplied == 2 * 3  # run, captured; then the step that it is compared with
    assert not here.reasons


def test_a_library_that_won_t_be_captured_is_called_at_each_replay(here):
    here.library.captures = False
    got, want, calls = recorded(here)
    assert np.array_equal(got, want)
    assert "cuGraphLaunch" not in calls
    assert here.module.captured is None


@pytest.mark.parametrize("status", NAMES)
@pytest.mark.parametrize(
    "name", ["matmul", "matmul_algo_get_heuristic", "matmul_desc_create", "matmul_desc_set_attribute", "matrix_layout_create"]
)
def test_where_it_fails_the_own_kernel_runs_and_is_reported(name, status):
    here = SHARED
    here.dispatcher.declines.clear()
    here.provider.failed.clear()
    here.provider.cublas.plan.cache_clear()
    here.library.failing = {name: status}
    before = here.library.multiplied
    hold(here, normal(16, 8), normal(4, 8))
    here.library.failing = {}
    hold(here, normal(16, 8), normal(4, 8))  # it isn't asked again
    assert here.library.multiplied == before
    assert here.dispatcher.ran["linear", "cuda"] >= 2
    why = f"cuBLASLt: {name} for x [16 8] with weight [4 8] in float32 failed: refused (CUBLAS_STATUS_{NAMES[status]})"
    assert here.dispatcher.declines == {Decline("cuda", "linear", f"{why}{INSTEAD}"): 2}
    here.dispatcher.declines.clear()
    here.provider.failed.clear()


@pytest.mark.parametrize(("state", "found"), [(15, 1), (0, 0)])
def test_no_algorithm_is_a_failure_too(here, state, found):
    here.library.state, here.library.found = state, found
    hold(here, normal(16, 8), normal(4, 8))
    assert here.reasons == {f"cuBLASLt: there is no algorithm for x [16 8] with weight [4 8] in float32 (status {state})"}


def test_without_room_the_own_kernel_runs_this_time(here, monkeypatch):
    x, weight = of(normal(300, 64)), of(normal(1000, 64, dtype="bfloat16"))
    hold(here, of(normal(16, 64)), weight)
    before = here.module.memory
    here.module.memory = sum(map(len, here.module.blocks.values())) + 2_000_000  # the result fits, three of them don't
    hold(here, x, weight)
    (why,) = here.reasons
    assert "bytes more don't fit" in why
    here.module.memory = before
    here.dispatcher.declines.clear()
    hold(here, x, weight)
    assert not here.reasons


def test_plans_and_the_handle_are_given_back(here):
    hold(here, normal(16, 8), normal(4, 8))
    here.provider.close()
    gc.collect()
    assert {o.kind for o in here.library.objects.values()} == {"handle", "product", "layout", "wish"}
    assert all(o.destroyed for o in here.library.objects.values())


def missing():
    raise ProviderUnavailableError("cuBLASLt: nvmath-python can't be imported: pip install 'vtcore[cublas]'")


def full():
    raise LibraryError("cuBLASLt: create failed")


@pytest.mark.parametrize("load", [missing, full])
def test_where_it_is_missing_the_facts_and_the_report_say_so(load):
    here = Here(load=load)
    why = here.provider.facts[NO_PRODUCTS]
    assert "cuBLASLt: " in why
    assert PRODUCTS not in here.provider.facts
    hold(here, normal(16, 8), normal(4, 8))
    assert here.reasons == {why}
    placement = Placement([here.provider])
    assert placement._where(ops.linear, ops.linear.bind(of(normal(16, 8)), of(normal(4, 8))))[0] == "cuda"
    assert dict(placement.declines) == dict(here.dispatcher.declines)
    here.provider.close()


def test_where_it_is_there_the_facts_say_which(here):
    assert here.provider.facts == {"device": "none", PRODUCTS: "cuBLASLt 13.10.0 for `linear`, from 16 rows on"}


def test_the_workspace_is_the_device_s(here):
    assert here.device.made == cublaslt.WORKSPACE
    assert limit_of([here.provider], None) <= here.module.memory - cublaslt.WORKSPACE


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90", "sm_120"])
def test_nvrtc_takes_its_kernels_without_spilling(architecture):
    for kernel in (products.SPLIT, products.JOIN):
        for variant in kernel.variants:
            (use,) = nvrtc.uses(target.source(variant), architecture)
            assert use.spilled == 0
