"""A golden's model without its numbers, and where the ops of its forward would run: no weight is drawn, nothing is computed."""

from __future__ import annotations

from math import prod
from pathlib import Path

import numpy as np

from vtcore.conformance.draw import Drawn
from vtcore.conformance.golden import Golden
from vtcore.formats.checkpoint import Checkpoint, RawTensor
from vtcore.models.decoder import Decoder
from vtcore.models.load import identify
from vtcore.models.weights import Outlines
from vtcore.placement import Placement
from vtcore.provider import Provider

TOKENS = 9  # of the prompt whose forward is looked at


def outline(golden: Golden) -> Decoder:
    """The model of a golden's checkpoint over weights that have shapes alone."""
    tensors = {t.name: _empty(t, golden.name) for t in golden.tensors()}
    checkpoint = Checkpoint(Path(golden.name), "safetensors", Path(golden.name), tensors, (), golden.config)
    found = identify(checkpoint, golden.max_model_len)
    return found.cls(found.config, Outlines(tensors), found.dialect)


def fallbacks(model: Decoder, provider: Provider) -> list[str]:
    """The ops of a forward that a provider alone declines, in order of their names; [] where it runs them all."""
    placement = Placement([provider])
    placement.forward(model, TOKENS)
    return sorted({decline.op for decline in placement.declines})


def _empty(tensor: Drawn, source: str) -> RawTensor:
    dtype = np.dtype(np.int64 if tensor.distinct else np.float32)
    nothing = np.broadcast_to(np.zeros(1, np.uint8), prod(tensor.shape) * dtype.itemsize)
    return RawTensor(tensor.name, tensor.shape, dtype, source, nothing)
