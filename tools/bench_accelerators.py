"""What a decoded token costs on accelerators, and how much of it the host's Python takes, once steps are recorded.

    python tools/bench_accelerators.py smollm2-135m opencl vulkan

The host's share is the processor time of the thread that runs the engine, drivers' calls included, over the time that a token takes. On a
software device kernels run on the same processor, so that times say little of others; the share says what Python would cost at most."""

from __future__ import annotations

import argparse
import statistics
import time
from unittest.mock import patch

from vtcore import LLM, SamplingParams
from vtcore.capture import Capture

WARM, TOKENS = 4, 32  # tokens until every step is a replay, and those that are timed


def main() -> None:
    """Print a line a provider."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("providers", nargs="+")
    args = parser.parse_args()
    print(f"{'providers':20s} {'ms a token':>10s} {'host ms':>8s} {'share':>6s} {'launches':>8s} {'us each':>8s}")
    for providers in args.providers:
        print(measured(args.model, providers))


def measured(model: str, providers: str) -> str:
    """Medians over the tokens of one answer."""
    replays: list[tuple[float, float, int]] = []
    replay = Capture.replay

    def timed(capture: Capture) -> None:
        began = time.perf_counter(), time.thread_time()
        replay(capture)
        replays.append((time.perf_counter() - began[0], time.thread_time() - began[1], sum(capture.ran.values())))

    with patch.object(Capture, "replay", timed), LLM(model, providers=providers, max_model_len=512, max_num_seqs=1) as llm:
        params = SamplingParams(temperature=0, max_tokens=WARM + TOKENS, ignore_eos=True)
        walls, hosts, last = [], [], (time.perf_counter(), time.thread_time())
        for _ in llm.stream("The sky is", params):
            now = time.perf_counter(), time.thread_time()
            walls.append(now[0] - last[0])
            hosts.append(now[1] - last[1])
            last = now
    wall, host = statistics.median(walls[WARM:]), statistics.median(hosts[WARM:])
    launches = replays[-1][2] if replays else 0
    each = statistics.median(r[1] for r in replays[1:]) / launches if launches else 0.0
    return f"{providers:20s} {wall * 1e3:10.1f} {host * 1e3:8.2f} {host / wall:6.1%} {launches:8d} {each * 1e6:8.2f}"


if __name__ == "__main__":
    main()
