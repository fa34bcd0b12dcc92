"""The check finds what is wrong with a kernel, and says where."""

import numpy as np
import pytest

from tests.fakes import FarMemory, far_view
from vtcore import tensor
from vtcore.conformance.case import cases
from vtcore.conformance.check import check, run
from vtcore.errors import ArgumentError
from vtcore.op import REGISTRY
from vtcore.provider import Provider


def with_kernel(name, kernel, **more):
    provider = Provider("mine")
    provider.kernel(REGISTRY[name], **more)(kernel)
    return provider


def outcomes(provider, name):
    return {v.outcome for v in check(provider, [name])}


def right(name, **call):
    """The definition on a call's Tensors."""
    return REGISTRY[name].reference(**{n: tensor.bare(v) for n, v in call.items()})


def one(provider, name, number=3):
    return run(provider, list(cases(REGISTRY[name]))[number])


def test_a_right_kernel_passes():
    assert outcomes(with_kernel("rms_norm", lambda **c: tensor.held(right("rms_norm", **c))), "rms_norm") == {"pass"}
    assert outcomes(with_kernel("write_pages", lambda **c: right("write_pages", **c)), "write_pages") == {"pass"}


def test_a_float32_kernel_passes():
    def norm(x, weight, eps, offset, groups):
        rows = x.numpy().astype(np.float32)
        parts = rows.reshape(*rows.shape[:-1], groups, rows.shape[-1] // groups)
        parts = parts / np.sqrt(np.mean(parts * parts, -1, keepdims=True) + np.float32(eps))
        out = parts.reshape(rows.shape)
        return tensor.of(out if weight is None else out * (weight.numpy().astype(np.float32) + np.float32(offset)))

    assert outcomes(with_kernel("rms_norm", norm), "rms_norm") == {"pass"}


def test_a_wrong_value_is_shown_with_its_bound_and_where_that_is_set():
    def norm(**call):
        out = right("rms_norm", **call)
        out[..., -1] *= np.float32(1.001)
        return tensor.of(out)

    verdict = one(with_kernel("rms_norm", norm), "rms_norm")
    assert (verdict.outcome, verdict.provider, verdict.worst.what) == ("fail", "mine", "result")
    assert verdict.worst.index[-1] == 127
    assert verdict.worst.relative == pytest.approx(1e-3, rel=0.01)
    assert 1000 < verdict.worst.ulps < 20000
    assert verdict.worst.error > verdict.worst.bound > 0
    text = str(verdict)
    assert text.startswith("fail     mine rms_norm#3 rms_norm(x=float32[2 3 128], weight=float32[128], eps=1e-06)")
    assert f"result{list(verdict.worst.index)} is {verdict.worst.got}, the definition gives {verdict.worst.want}: off by" in text
    assert "the bound is set by the tolerance of rms_norm, vtcore/op" in text


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda out: tensor.of(out.astype(np.float16)), "result is float16[2, 3, 128]; it must be float32[2, 3, 128]"),
        (lambda out: tensor.of(out[..., :-1]), "result is float32[2, 3, 127]; it must be float32[2, 3, 128]"),
        (lambda out: out, "result is ndarray; it must be a Tensor"),
        (lambda out: None, "0 results; the op has 1"),
        (lambda out: (tensor.of(out), tensor.of(out)), "2 results; the op has 1"),
        (lambda out: tensor.of(np.ascontiguousarray(out.T)).transpose(2, 1, 0), "a result must be contiguous"),
        (lambda out: tensor.of(np.where(np.arange(128) == 5, np.nan, out).astype(np.float32)), "5] is nan"),
        (lambda out: tensor.of(np.where(np.arange(128) == 5, np.inf, out).astype(np.float32)), "5] is inf"),
    ],
)
def test_a_result_of_another_kind_fails(spoil, words):
    verdict = one(with_kernel("rms_norm", lambda **c: spoil(right("rms_norm", **c))), "rms_norm")
    assert verdict.outcome == "fail"
    assert words in verdict.reason


def test_a_number_where_the_definition_gives_nan_fails():
    provider = with_kernel("softmax", lambda x: tensor.of(np.nan_to_num(right("softmax", x=x))))
    failed = [v for v in check(provider, ["softmax"]) if v.outcome == "fail"]
    assert failed
    assert all(np.isnan(v.worst.want) for v in failed)


def test_a_result_that_is_an_argument_fails():
    verdict = one(with_kernel("scale", lambda x, factor: x), "scale")
    assert verdict.reason == "result lies in the memory of x; a result must be fresh"


def test_an_argument_that_is_changed_fails():
    def norm(**call):
        out = tensor.held(right("rms_norm", **call))
        call["x"].numpy()[..., 0] += 1
        return out

    assert one(with_kernel("rms_norm", norm), "rms_norm").reason == "x was changed; the op writes none of its arguments"


def test_what_lies_between_an_argument_s_rows_may_neither_be_read_nor_written():
    def reads(x, factor):
        whole = tensor.Tensor(x.storage, (x.storage.nbytes // x.dtype.itemsize,), x.dtype).numpy()
        return tensor.of((x.numpy() * np.float32(factor) + whole[x.shape[-1] :][:1] * 0).astype(np.float32))

    def writes(**call):
        pages = call["pages"]
        right("write_pages", **call)
        if not pages.contiguous:
            pages.storage.copies[tensor.HOST].buffer.view(pages.dtype)[pages.shape[-1] : pages.shape[-1] + 1] = 1

    strided = [v for v in check(with_kernel("scale", reads), ["scale"]) if " by " in str(v.case)]
    assert "fail" in {v.outcome for v in strided}
    reasons = {v.reason for v in check(with_kernel("write_pages", writes), ["write_pages"]) if v.outcome == "fail"}
    assert "bytes beside or between the rows of pages were changed" in reasons


def test_a_missing_write_fails():
    verdicts = list(check(with_kernel("write_pages", lambda **call: None), ["write_pages"]))
    failed = [v for v in verdicts if v.outcome == "fail"]
    assert failed
    assert all(v.worst.what == "pages" for v in failed)
    assert all(v.outcome == "pass" for v in verdicts if v not in failed)  # nothing to write


def test_integers_must_be_equal():
    def best(x):
        return tensor.of(np.array(x.numpy().astype(np.float32)[..., ::-1].argmax(-1), np.int32))

    verdict = one(with_kernel("argmax", best), "argmax")
    assert (verdict.outcome, verdict.worst.bound) == ("fail", 0)


def test_a_decline_is_an_outcome_with_its_reason():
    provider = with_kernel("scale", lambda x, factor: tensor.of(x.numpy()), declines=lambda x, factor: f"factor {factor} is not 1")
    verdict = one(provider, "scale")
    assert (verdict.outcome, verdict.reason) == ("declined", "factor 0.1 is not 1")
    assert one(provider, "softmax").reason == "no kernel"


def test_a_kernel_that_raises_does_not_end_the_check():
    def broken(x, factor):
        raise MemoryError("no room")

    verdicts = list(check(with_kernel("scale", broken), ["scale"]))
    assert {(v.outcome, v.kind, v.reason) for v in verdicts} == {("error", "raised", "MemoryError: no room")}
    assert len(verdicts) > 10


def test_a_provider_with_a_memory_of_its_own():
    provider = Provider("distant", FarMemory())

    @provider.kernel(REGISTRY["paged_attention"])
    def _attend(**call):
        views = {n: far_view(v, provider.memory) if isinstance(v, tensor.Tensor) else v for n, v in call.items()}
        result = REGISTRY["paged_attention"].reference(**views)
        out = tensor.empty(provider.memory, result.shape)
        far_view(out, provider.memory)[...] = result
        return out

    @provider.kernel(REGISTRY["write_pages"])
    def _write(**call):
        REGISTRY["write_pages"].reference(**{n: far_view(v, provider.memory) for n, v in call.items()})

    assert outcomes(provider, "paged_attention") == {"pass"}
    assert outcomes(provider, "write_pages") == {"pass"}


def test_an_unknown_op_is_named():
    with pytest.raises(ArgumentError, match=r"there is no op 'rms_nrom' \(nearest: rms_norm\); there are add, add_rms_norm"):
        list(check(Provider("mine"), ["rms_nrom"]))


def test_a_seed_draws_the_same_cases():
    def drawn(seed):
        return [c.call["x"].tobytes() for c in cases(REGISTRY["softmax"], seed)]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
