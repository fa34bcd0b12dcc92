"""The smallest sample of each op on Oclgrind, which looks at every access: `oclgrind python -m tests.providers.gpu.grind [OP...]`."""

import sys
from math import prod

import numpy as np

from vtcore.conformance.case import Case
from vtcore.conformance.laid import Arguments
from vtcore.dispatch import Dispatcher
from vtcore.op import REGISTRY, Op
from vtcore.providers import ProviderOptions
from vtcore.providers.opencl import make
from vtcore.quant import Blocks
from vtcore.tensor import Tensor


def smallest(op: Op) -> dict:
    """The sample of an op with the fewest values that isn't empty: what is stored in few bits is as much work."""
    calls = [op.bind(**call) for call in op.samples(np.random.default_rng(0))]
    return min((c for c in calls if all(v.nbytes for v in arrays(c))), key=lambda c: sum(prod(v.shape) for v in arrays(c)))


def arrays(call: dict) -> list:
    """Every array of a call, also in tuples."""
    flat = [part for v in call.values() for part in (v if isinstance(v, (list, tuple)) else (v,))]
    return [v for v in flat if isinstance(v, (np.ndarray, Blocks))]


def main(names: list[str]) -> None:
    """Run each op once. What Oclgrind has to say it writes to its log."""
    provider = make(ProviderOptions())
    assert "oclgrind" in provider.facts["driver"].lower(), provider.facts
    provider.device.shares = False  # it doesn't see what the host writes to memory that both have
    provider.device.options.append("-cl-opt-disable")  # LLVM's passes make intrinsics that Oclgrind 21.10 doesn't know
    for name in names or provider.kernels:
        with Dispatcher([provider], strict=True):
            op = REGISTRY[name]
            out = op(**Arguments(Case(op, smallest(op), 0, 0)).tensors())
            for made in out if isinstance(out, tuple) else (out,):
                if isinstance(made, Tensor):
                    made.numpy()
    provider.device.synchronize()


if __name__ == "__main__":
    main(sys.argv[1:])
