"""What exported definitions call, with stand-ins for torch's tensors: torch is not installed here."""

import sys
import types

import ml_dtypes
import numpy as np

from vtcore.conformance.case import cases
from vtcore.conformance.flashinfer.export import export
from vtcore.op import REGISTRY


class FakeTensor:
    """As much of a torch tensor as is used."""

    def __init__(self, array):
        self.array = array
        self.dtype = "torch.bfloat16" if array.dtype == ml_dtypes.bfloat16 else array.dtype

    def detach(self):
        return self

    cpu = contiguous = detach

    def view(self, dtype):
        return FakeTensor(self.array.view(ml_dtypes.bfloat16 if dtype == "torch.bfloat16" else np.int16))

    def numpy(self):
        assert self.array.dtype != ml_dtypes.bfloat16, "torch can't give bfloat16 to NumPy"
        return self.array


def test_references_give_what_the_op_gives(monkeypatch):
    torch = types.ModuleType("torch")
    torch.bfloat16, torch.int16, torch.from_numpy = "torch.bfloat16", "torch.int16", FakeTensor
    monkeypatch.setitem(sys.modules, "torch", torch)
    for name in ("rms_norm", "add_rms_norm", "write_pages", "top_k", "silu_mul", "experts"):
        for case in list(cases(REGISTRY[name]))[:8]:
            made, space = export(case), {}
            exec(made.definition["reference"], space)
            values = made.tensors | {n: i["value"] for n, i in made.workload["inputs"].items() if i["type"] == "scalar"}
            given = [FakeTensor(np.array(v)) if isinstance(v, np.ndarray) else v for v in (values[n] for n in made.definition["inputs"])]
            out = space["run"](*given)
            copies = {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in case.call.items()}
            want = case.op.reference(**copies)
            wanted = [*(want if isinstance(want, tuple) else () if want is None else (want,)), *(copies[n] for n in case.op.writes)]
            assert len(wanted) == len(made.definition["outputs"])
            for got, right in zip(out if isinstance(out, tuple) else (out,), wanted, strict=True):
                assert got.array.tobytes() == right.tobytes()
