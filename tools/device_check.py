"""What only a machine with an NVIDIA device can tell, in one report: the kernels against the definitions, tokens, launches, registers.

    python tools/device_check.py [--output FILE] [--seconds 480]

Prints one JSON object. Exit status 0: all of it is right; 1: something is wrong; 3: there is no device, and why. Steps for which no time
is left are named as left out."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import check_nvrtc
import ml_dtypes
import numpy as np

from vtcore import ops
from vtcore.capture import Capture
from vtcore.conformance.check import check
from vtcore.conformance.gate import Outcome, answer, judge, load
from vtcore.conformance.golden import goldens as recorded
from vtcore.dispatch import Dispatcher
from vtcore.errors import ProviderError, ProviderUnavailableError
from vtcore.numerics import NO_PRODUCTS, PRODUCTS
from vtcore.provider import Provider
from vtcore.providers import ProviderOptions, find
from vtcore.tensor import of

LAUNCHES = 1000
PRODUCT, FUZZ = (512, 4096, 4096), 100  # rows, outputs, terms; calls that are drawn
NO_DEVICE = 3
Part = dict[str, Any]


def kernels(provider: Provider) -> Part:
    """`vtcore check cuda`."""
    seen = list(check(provider))
    return {"outcomes": Counter(v.outcome for v in seen), "wrong": [str(v) for v in seen if v.bad]}


def goldens(provider: Provider) -> Part:
    """The tokens of every tiny golden architecture, on the device before the definitions."""
    verdicts = [judge(golden, answer(load(golden), golden, [provider])) for golden in recorded()]
    return {"goldens": len(verdicts), "wrong": [str(v) for v in verdicts if v.outcome is not Outcome.EXACT]}


def launches(provider: Provider) -> Part:
    """Microseconds that one small launch takes, called one by one, and replayed as a graph."""
    x, w = of(np.ones((1, 64), np.float32)), of(np.ones(64, np.float32))
    dispatcher = Dispatcher([provider], strict=True)

    def step() -> None:
        for _ in range(LAUNCHES):
            ops.rms_norm(x, w, 1e-6)

    with dispatcher:
        ops.rms_norm(x, w, 1e-6)
        eager = _microseconds(provider, step)
        with Capture(dispatcher) as capture:
            step()
    return {"eager_us": eager, "replayed_us": _microseconds(provider, capture.replay), "wrong": []}


def _microseconds(provider: Provider, run: Callable[[], None]) -> float:
    provider.memory.synchronize()
    begin = perf_counter()
    run()
    provider.memory.synchronize()
    return round((perf_counter() - begin) / LAUNCHES * 1e6, 2)


def products(provider: Provider) -> Part:
    """cuBLASLt under fast numerics: the op's dense samples and larger products against the definition, recorded too, and the milliseconds
    that a product takes by it and by the own kernel."""
    fast = find("cuda", ProviderOptions(numerics="fast"))
    try:
        if PRODUCTS not in fast.facts:
            return {"left_out": fast.facts[NO_PRODUCTS]}
        out = Part(by=fast.facts[PRODUCTS], wrong=[str(v) for v in check(fast, ["linear"], fuzz=FUZZ) if v.bad])
        for dtype in (np.float32, np.float16, ml_dtypes.bfloat16):
            out[np.dtype(dtype).name] = shown = _multiplied(fast, provider, np.dtype(dtype))
            out["wrong"] += shown.pop("wrong")
        return out
    finally:
        fast.close()


def _multiplied(fast: Provider, own: Provider, dtype: np.dtype[Any]) -> Part:
    rng, (rows, outputs, terms) = np.random.default_rng(0), PRODUCT
    x, bias = (rng.standard_normal(s).astype(np.float32) for s in ((rows, terms), outputs))
    weight = rng.standard_normal((outputs, terms)).astype(dtype)
    want = x.astype(np.float64) @ weight.astype(np.float64).T + bias
    bound = ops.linear.tolerance.bound("float32", {"K": terms}) * np.abs(want).max(-1, keepdims=True)
    wrong, took = [], Part()
    for name, provider in (("cublaslt", fast), ("own", own)):
        call, dispatcher = [of(a) for a in (x, weight, bias)], Dispatcher([provider], strict=True)
        with dispatcher:
            ops.linear(*call)
            with Capture(dispatcher) as capture:
                y = ops.linear(*call)
        capture.replay()
        took[f"{name}_ms"] = round(_microseconds(provider, capture.replay) * LAUNCHES / 1000, 3)
        off = float((np.abs(y.numpy() - want) / bound).max())
        took[f"{name}_error"] = round(off, 3)  # 1: as much as is allowed
        wrong += [f"{name}, {dtype.name}: {off:.3g} times the tolerance"] if not off <= 1 else []
        wrong += [f"{name}, {dtype.name}: {d.reason}" for d in dispatcher.declines]
    return took | {"wrong": wrong}


def registers(provider: Provider) -> Part:
    """Registers and spills on the device's own architecture."""
    architecture: str = provider.memory.__dict__["architecture"]
    found = list(check_nvrtc.taken(check_nvrtc.chosen(architecture, everything=True), architecture))
    spilled = [use.kernel for use in found if use.spilled]
    return {"architecture": architecture, "kernels": len(found), "most": max(use.registers for use in found), "wrong": spilled}


PARTS = (launches, kernels, goldens, products, registers)


def report(seconds: float) -> tuple[int, Part]:
    """The exit status and the report."""
    begin, out = perf_counter(), Part()
    try:
        provider = find("cuda")
    except ProviderUnavailableError as missing:
        return NO_DEVICE, {"device": None, "why": str(missing)}
    out["device"] = dict(provider.facts)
    for part in PARTS:
        started = perf_counter()
        if started - begin > seconds:
            out[part.__name__] = {"left_out": f"{seconds:g} s are over"}
            continue
        try:
            out[part.__name__] = part(provider)
        except ProviderError as wrong:
            out[part.__name__] = {"wrong": [str(wrong)]}
        out[part.__name__]["seconds"] = round(perf_counter() - started, 1)
    return int(any(out[p.__name__].get("wrong") for p in PARTS)), out


def main() -> int:
    """Print or write the report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the report there too")
    parser.add_argument("--seconds", type=float, default=480.0, help="no part is begun after so long (default 480)")
    args = parser.parse_args()
    status, out = report(args.seconds)
    text = json.dumps(out, indent=1)
    print(text)
    if args.output:
        args.output.write_text(text + "\n", encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
