"""What `vtcore bench-op` prints for people."""

from __future__ import annotations

from collections.abc import Iterator

from vtcore.bench.machine import BUSY
from vtcore.bench.op_bench import OpBench, Speed
from vtcore.bench.show import table, text


def show(result: OpBench) -> Iterator[str]:
    """Lines."""
    yield from _heading(result)
    columns = ("provider", "us a call", "least", "most", "GB/s", "GFLOP/s", f"of {result.bound}", "calls", "checked")
    yield ""
    yield from table(columns, [_row(s) for s in result.speeds])
    for ratio in result.ratios:
        spread = f"{text(ratio.least)} to {text(ratio.most)}, round by round"
        yield f"\n{result.speeds[0].provider} is {text(ratio.median)} times as fast as {ratio.against} ({spread})"
    for speed in result.speeds:
        if said := _remark(speed):
            yield f"\n{said}"


def _heading(result: OpBench) -> Iterator[str]:
    m, roof = result.machine, result.roofline
    yield f"call      {result.call}"
    yield f"work      {_bytes(result.nbytes)} read and written" + ("" if result.flops is None else f", {result.flops / 1e9:.4g} GFLOP")
    yield f"machine   {m['processor']}; {roof.bandwidth / 1e9:.1f} GB/s, {roof.flops / 1e9:.0f} GFLOP/s (float32), {roof.threads} threads"
    where = "more than the caches hold" if result.cold else "which the caches hold"
    yield f"inputs    {result.sets} sets in turns, {where}; new values in each before every round"
    if m["load"] is not None and m["load"] > BUSY:
        yield f"note      {m['load']} threads ran here over the last minute: on a busy machine figures are too low"


def _remark(speed: Speed) -> str:
    if speed.wrong:
        return f"WRONG: {speed.provider}: {speed.wrong}\n    a wrong kernel has no speed"
    if speed.unshared:
        return f"{speed.provider}: no share of the roofline: {speed.unshared}"
    over = speed.share is not None and speed.share > 1.1
    return f"{speed.provider}: {speed.share:.0%} of the roofline: other work held this machine back while that was measured" if over else ""


def _row(s: Speed) -> tuple[str, ...]:
    times = [text(1e6 * v) for v in (s.seconds, s.least, s.most)] + [text(s.gbytes), "" if s.gflops is None else text(s.gflops)]
    share = "" if s.share is None else f"{s.share:.0%}"
    figures = ["-"] * 6 if s.wrong else [*times, share]
    return (s.provider, *figures, str(s.calls), f"{s.checked}, WRONG" if s.wrong else str(s.checked))


def _bytes(n: int) -> str:
    return f"{n / (1 << 20):.3g} MiB" if n >= 1 << 20 else f"{n / 1024:.3g} KiB"
