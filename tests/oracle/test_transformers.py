"""The engine on torch, where torch isn't, and the part of it that needs none."""

import numpy as np
import pytest

from vtcore.errors import ArgumentError
from vtcore.oracle.engines import transformers


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(transformers.importlib, "import_module", lambda name: (_ for _ in ()).throw(ImportError(name)))
    with pytest.raises(ArgumentError, match=r"engine transformers needs torch, which isn't installed here: pip install 'vtcore\[oracle\]'"):
        transformers.TransformersEngine("somewhere")


def test_of_equals_the_one_that_was_chosen_comes_first():
    ids, logprobs = np.int32([[4, 7, 9], [1, 2, 3], [1, 2, 3]]), np.float32([[-1, -1, -2], [-1, -2, -3], [-1, -2, -3]])
    ids, logprobs = transformers.chosen_first([7, 1, 2], ids, logprobs)
    assert ids.tolist() == [[7, 4, 9], [1, 2, 3], [2, 1, 3]]
    assert logprobs.tolist() == [[-1, -1, -2], [-1, -2, -3], [-2, -1, -3]]
