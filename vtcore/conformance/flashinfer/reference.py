"""What the exported definitions call: an op's definition on torch tensors."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import vtcore.ops  # noqa: F401  (registers the ops)
from vtcore.op import REGISTRY


def definition(op: str, **arguments: Any) -> Any:
    """An op's results as torch tensors, then the arguments that it writes; one alone, or a tuple of several.

    Tensors come as torch's, on any device; the results are on the CPU. Raises OpError where the op doesn't take the call."""
    spec = REGISTRY[op]
    call = spec.bind(**{n: _array(v) for n, v in arguments.items()})
    results = spec(**call)
    given = [*(results if isinstance(results, tuple) else () if results is None else (results,)), *(call[n] for n in spec.writes)]
    made = tuple(_tensor(a) for a in given)
    return made[0] if len(made) == 1 else made


def _array(value: Any) -> Any:
    if not hasattr(value, "detach"):
        return value
    import torch

    host = value.detach().cpu().contiguous()
    if host.dtype == torch.bfloat16:
        return np.array(host.view(torch.int16).numpy()).view(ml_dtypes.bfloat16)
    return np.array(host.numpy())


def _tensor(array: Any) -> Any:
    import torch

    plain = np.array(array, order="C")
    return torch.from_numpy(plain.view(np.int16)).view(torch.bfloat16) if plain.dtype == ml_dtypes.bfloat16 else torch.from_numpy(plain)
