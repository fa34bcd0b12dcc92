"""An architecture that says what its checkpoint tells it to, by the decorator alone: as a model outside of the package would."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import numpy as np
from safetensors.numpy import save_file

from vtcore.models.batch import Step
from vtcore.models.decoder import Decoder, Layer, Names, Param, architecture
from vtcore.ops import add, embedding
from vtcore.tensor import Tensor

CONFIG = {
    "architectures": ["ScriptForCausalLM"], "num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 1, "vocab_size": 257,
    "max_position_embeddings": 128, "tie_word_embeddings": False,
}  # fmt: skip


@architecture("ScriptForCausalLM")
class ScriptModel(Decoder):
    """The row `script[p]` of the checkpoint is the logits after position p, whatever stood before."""

    top: ClassVar[Names] = {"script": "script"}

    def embed(self, step: Step) -> Tensor:
        return embedding(self.top_weights.script, step.batch.positions)

    def layer(self, w: Layer, x: Tensor, step: Step) -> Tensor:
        return add(x, x)

    def finish(self, x: Tensor) -> Tensor:
        return x

    def norm(self, x: Tensor, p: Param) -> Tensor:
        return x

    def head(self, x: Tensor) -> Tensor:
        return x


def script(directory: Path, says: bytes | list[int] = b"", strength: float = 4.0, **changes: object) -> Path:
    """A checkpoint after whose position p the token says[p] is likeliest; where it says nothing, all tokens are alike."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(CONFIG | changes))
    rows = np.zeros((128, 257), np.float32)
    rows[np.arange(len(says)), list(says)] = strength
    save_file({"script": rows}, directory / "model.safetensors")
    return directory
