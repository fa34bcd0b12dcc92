"""Run by test_validation with Khronos's validation layer on: ops' samples on the device, each also in a recorded step that is run again.

With the argument `wrong` it breaks a rule, which the layer must tell."""

import sys
from itertools import islice

import numpy as np

from vtcore import ops
from vtcore.capture import Capture
from vtcore.conformance.case import cases
from vtcore.conformance.laid import Arguments
from vtcore.dispatch import Dispatcher
from vtcore.providers import find

OPS = (ops.rms_norm, ops.linear, ops.embedding, ops.rope_angles, ops.rotate, ops.write_pages, ops.paged_attention, ops.silu_mul, ops.argmax)
SAMPLES = 3


def run(case, dispatcher):
    """Eager, recorded, and the recorded step again."""
    arguments = Arguments(case)
    arguments.fill(case.call)
    with dispatcher:
        first = numbers(case.op(**arguments.tensors()))
    capture = Capture(dispatcher)
    with dispatcher, capture:
        step = case.op(**arguments.tensors())
    capture.replay()
    for a, b in zip(first, numbers(step), strict=True):
        np.testing.assert_array_equal(a, b)


def numbers(results):
    """On the host, of one result or several or none."""
    several = results if isinstance(results, tuple) else () if results is None else (results,)
    return [r.numpy().copy() for r in several]


def break_a_rule(device):
    """An update at an offset that is no multiple of 4."""
    device.queue.recording().update(device.alloc(256).buffer.buffer, 2, np.zeros(4, np.uint8))
    device.synchronize()


def main():
    provider = find("vulkan")
    if "wrong" in sys.argv:
        break_a_rule(provider.device)
    dispatcher = Dispatcher([provider], strict=True)
    chosen = [case for op in OPS for case in islice(cases(op), SAMPLES)]
    for case in chosen:
        run(case, dispatcher)
    provider.close()
    print(f"{len(chosen)} calls ran")


if __name__ == "__main__":
    main()
