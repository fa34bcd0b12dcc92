"""A golden: a tiny checkpoint of one architecture, as draws, and what transformers answers on it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import sqrt
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

from vtcore.conformance.draw import Array, Drawn, standard, unfold

FOLDER = Path(__file__).parent / "golden"
PROBES = 2  # numbers kept of a row of logits
TYPES = {"float32": np.dtype(np.float32), "bfloat16": np.dtype(ml_dtypes.bfloat16), "float16": np.dtype(np.float16)}


def probes(logits: Array) -> Array:
    """[..., V] -> [..., PROBES]: sums with fixed random weights, scaled so that a probe errs as much as a logit does (root mean square)."""
    vocab = logits.shape[-1]
    directions = standard(0, "probe", PROBES * vocab).reshape(PROBES, vocab) / sqrt(vocab)
    return np.asarray(np.einsum("...v,pv->...p", logits.astype(np.float64), directions))


@dataclass(frozen=True)
class Case:
    """A prompt and its answer: greedy tokens with a cache, end of text ignored.

    A row of logits for each position of the prompt and each later step but the last token's: T = len(prompt) + len(tokens) - 1."""

    prompt: list[int]
    tokens: list[int]
    margins: list[float]  # how far each token's logit stands above the second best
    top: list[float]  # each token's logit
    probes: Array  # [T, PROBES] of each row of logits
    last: Array  # [V], the whole row at the end of the prompt; of some cases [0]: not kept

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Case:
        kept = {n: np.array(raw[n], np.float64) for n in ("probes", "last")}
        return cls(raw["prompt"], raw["tokens"], raw["margins"], raw["top"], **kept)


@dataclass(frozen=True)
class Golden:
    """One recorded checkpoint. `config` is config.json as transformers 5 writes it; `older` the same in the spelling before it, or None."""

    name: str
    seed: int
    dtype: str  # what the oracle computed in: float32, or bfloat16 rounded at torch's op borders
    tolerance: float  # of logits, absolute: above the oracle's own noise
    noise: float | None  # the oracle's: the largest difference of its logits with and without a cache; None: they are two things
    max_model_len: int | None  # what must be served for these answers, where rope depends on it
    versions: dict[str, str]
    config: dict[str, Any]
    older: dict[str, Any] | None
    lines: tuple[Drawn, ...]
    cases: tuple[Case, ...]
    variant: Golden | None = None  # a second network: another seed, and other numbers wherever they matter
    seen: Mapping[str, float | None] = field(default_factory=dict)  # of a variant, below

    @classmethod
    def load(cls, path: Path) -> Golden:
        """Read one recorded file."""
        raw = json.loads(path.read_text())
        other = raw.pop("variant", None)
        older = _older(raw["config"], raw.pop("older"))
        golden = cls(path.stem, older=older, **_drawn(raw))
        return golden if other is None else replace(golden, variant=golden._varied(other))

    def _varied(self, raw: dict[str, Any]) -> Golden:
        """The second network. `seen`: the fields of config.json that are others than the first's, with how far the first's logits move
        where one alone is changed, or None where it changes the tensors."""
        config = _changed(self.config, raw.pop("config"))
        return replace(self, name=f"{self.name}_varied", config=config, older=None, **_drawn(raw))

    @property
    def architecture(self) -> str:
        """The name that a checkpoint's config.json gives."""
        return str(self.config["architectures"][0])

    def tensors(self) -> list[Drawn]:
        """Every tensor of the checkpoint."""
        return [tensor for line in self.lines for tensor in unfold(line)]

    def weights(self) -> dict[str, Array]:
        """Every tensor of the checkpoint by name: float32 (or int64)."""
        return {t.name: t.array(self.seed) for t in self.tensors()}

    def write_safetensors(self, directory: Path, *, dtype: str = "float32", older: bool = False, shards: int = 1) -> Path:
        """config.json and model.safetensors (or `shards` files and their index); no dtype changes a value. Returns the directory."""
        directory.mkdir(parents=True, exist_ok=True)
        config = self.older if older else self.config
        assert config is not None, f"golden {self.name} has no older spelling"
        (directory / "config.json").write_text(json.dumps(config, indent=1))
        stored = {n: a.astype(TYPES[dtype]) if a.dtype == np.float32 else a for n, a in self.weights().items()}
        if shards == 1:
            save_file(stored, directory / "model.safetensors", metadata={"format": "pt"})
        else:
            _write_shards(directory, stored, shards)
        return directory


def goldens(architectures: Iterable[str] | None = None) -> list[Golden]:
    """The recorded goldens in order of their names: all, or those whose checkpoint has one of these architectures."""
    found = [Golden.load(path) for path in sorted(FOLDER.glob("*.json"))]
    wanted = None if architectures is None else set(architectures)
    return [g for g in found if wanted is None or g.architecture in wanted]


def _line(name: str, shape: list[int], draw: Any, offset: float = 0.0) -> Drawn:
    if isinstance(draw, dict):
        return Drawn(name, tuple(shape), distinct=draw["distinct"])
    return Drawn(name, tuple(shape), draw, offset)


def _drawn(raw: dict[str, Any]) -> dict[str, Any]:
    """Fields as they are here."""
    return raw | {"lines": tuple(_line(*entry) for entry in raw.pop("tensors")), "cases": tuple(map(Case.of, raw.pop("cases")))}


def _older(config: dict[str, Any], change: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The older spelling."""
    return None if change is None else _changed(config, change)


def _changed(config: dict[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Without some of the fields, with some others."""
    added: dict[str, Any] = change["with"]
    return {n: v for n, v in copy.deepcopy(config).items() if n not in change["without"]} | added


def _write_shards(directory: Path, tensors: Mapping[str, Array], shards: int) -> None:
    files = [f"model-{i + 1:05}-of-{shards:05}.safetensors" for i in range(shards)]
    where = {name: files[i * shards // len(tensors)] for i, name in enumerate(tensors)}
    for file in files:
        save_file({n: a for n, a in tensors.items() if where[n] == file}, directory / file, metadata={"format": "pt"})
    index = {"metadata": {"total_size": sum(a.nbytes for a in tensors.values())}, "weight_map": where}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
