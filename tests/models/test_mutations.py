"""Every field of every golden's config, made wrong in each of some ways: the model loads, or an error says which field it is."""

import copy
import json
import re
from math import prod
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from tests.conformance.gated import ONE_EACH
from vtcore.errors import VtcoreError
from vtcore.formats.checkpoint import Checkpoint
from vtcore.formats.raw import RawTensor
from vtcore.memory import HOST
from vtcore.models.load import load_model

WRONG = {"zero": 0, "negative": -1, "large": 1 << 19, "huge": 10**12, "text": "x", "list": [1], "object": {"a": 1}}
WAYS = ("drop", "odd", *WRONG)
INERT = re.compile("token_id|dropout|initializer|dtype|_version|use_cache|architectures")  # what loading doesn't look at
ROOM = 1 << 30  # bytes: of a forward over six tokens in the widest shapes
ELSEWHERE = {  # fields whose absence or value shows in what follows from them, and how
    ("q_lora_rank", "zero"): "q_proj",  # none: queries come from one matrix
    ("text_config", "zero"): "num_hidden_layers", ("text_config", "object"): "num_hidden_layers",
}  # fmt: skip


def fields(config, path=()):
    """Of a config and of the objects in it; of towers, which are not read, none."""
    for name, value in config.items():
        if name != "vision_config" and not INERT.search(name):
            yield (*path, name)
            yield from fields(value, (*path, name)) if isinstance(value, dict) else ()


def mutated(config, path, way):
    out = copy.deepcopy(config)
    inner = out
    for name in path[:-1]:
        inner = inner[name]
    value = inner[path[-1]]
    if way == "drop":
        del inner[path[-1]]
    elif way == "odd":  # a number that divides nothing, a list that is too long
        inner[path[-1]] = [*value, *value[:1]] if isinstance(value, list) else value + 1 if type(value) is int else 7
    else:
        inner[path[-1]] = WRONG[way]
    return out


def headers(golden):
    """A golden's tensors, of which there is one byte."""
    types = {t.name: (t.shape, np.dtype(np.int64 if t.distinct else np.float32)) for t in golden.tensors()}
    one = np.zeros(1, np.uint8)[0]
    return {n: RawTensor(n, s, d, "file", np.broadcast_to(one, prod(s) * d.itemsize)) for n, (s, d) in types.items()}


def cases():
    """Each field in each way, in one of the goldens that have it."""
    having = {}
    for golden in ONE_EACH:
        for path in fields(golden.config):
            having.setdefault(path[-1], []).append((golden, path))
    for name, places in having.items():
        for way in WAYS:
            yield (*places[crc32(f"{name}/{way}".encode()) % len(places)], way)


CASES = list(cases())
TENSORS = {g.name: headers(g) for g in ONE_EACH}


@pytest.mark.filterwarnings("ignore")  # of heads that differ from the embedding
@pytest.mark.parametrize("way", WAYS)
def test_a_wrong_field_is_named_or_has_no_effect_on_loading(way):
    unnamed, where = [], Path("model")
    for golden, path, _ in (c for c in CASES if c[2] == way):
        config, before = mutated(golden.config, path, way), HOST.made
        try:
            load_model(Checkpoint(where, "safetensors", where, TENSORS[golden.name], (), config), max_model_len=golden.max_model_len)
        except VtcoreError as e:
            said = str(e)
            assert len(said) < 12_000, (golden.name, path)
            if not (path[-1] in said or way == "drop" or ELSEWHERE.get((path[-1], way), said + "!") in said):
                unnamed.append((golden.name, "/".join(path), said[:300]))
        assert HOST.made - before < ROOM, (golden.name, path)
    assert unnamed == [], json.dumps(unnamed, indent=1)
