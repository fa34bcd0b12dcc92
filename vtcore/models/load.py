"""From an opened checkpoint to a model: which class, its config, its spelling, and what is wrong before a weight is read."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch

import numpy as np

from vtcore import tensor
from vtcore.errors import ArgumentError, CheckpointError, ConfigError, OpError, TensorNamesError
from vtcore.formats.checkpoint import Checkpoint, RawTensor
from vtcore.formats.quantised import unpacked
from vtcore.models.config import ModelConfig
from vtcore.models.decoder import Decoder
from vtcore.models.facts import Survey
from vtcore.models.fields import Json
from vtcore.models.gguf_config import architecture_name, as_hf
from vtcore.models.gguf_names import gguf_dialect
from vtcore.models.gguf_special import Number, numbers
from vtcore.models.kept import kept_as
from vtcore.models.names import Dialect, Host, Names, StoredExperts, Turned
from vtcore.models.registry import ARCHITECTURES, GGUF_ARCHITECTURES, find
from vtcore.models.sizes import told
from vtcore.models.standing import Standing
from vtcore.models.survey import survey
from vtcore.models.weights import Raw, Weights
from vtcore.models.wrappers import beside, text_config, unwrapped
from vtcore.quant.blocks import BlockFormat
from vtcore.tensor import Tensor

NUMERICS = ("exact", "fast")
BUFFERS = (  # recomputed, whatever is stored
    "*rotary_emb.inv_freq", "*rotary_emb.cos_cached", "*rotary_emb.sin_cached", "*.masked_bias", "*h.*.attn.bias", "*.attention.bias",
    "*.self_attn.slope_rate", "*.self_attn.query_decay", "*.self_attn.key_decay", "*.self_attn.diagonal_decay",
)  # fmt: skip
SHOWN = 40  # names in a message before layers are counted instead


@dataclass(frozen=True)
class Loaded:
    """A checkpoint as a model reads it, before there is a model."""

    cls: type[Decoder]
    config: ModelConfig
    dialect: Dialect
    read: frozenset[str]  # tensors that the config was made from
    numbers: Mapping[str, Number] = field(default_factory=dict)  # metadata that the forward reads as tensors


def load_model(
    checkpoint: Checkpoint,
    *,
    numerics: str = "exact",
    max_model_len: int | None = None,
    wrap: Callable[[Host], Tensor] = tensor.of,
    kv_cache_dtype: str = "auto",
) -> Decoder:
    """A model whose weights are all there and of the right shapes; they are read on first use, and stay mapped and quantised.

    numerics: exact, or fast (8-bit activations against quantised weights). max_model_len: the longest sequence that will be served (None:
    what the checkpoint is made for); ropes that stretch choose by it. wrap: how an array becomes what ops take.
    kv_cache_dtype: how keys and values are kept, a key of kvcache.codes.DTYPES.

    Raises UnknownArchitectureError, ConfigError, TensorNamesError (all missing and unread names at once), CheckpointError (shapes)."""
    if numerics not in NUMERICS:
        raise ArgumentError(f"numerics is {numerics!r}; it must be exact or fast")
    kept = kept_as(kv_cache_dtype, checkpoint.tensors)
    checkpoint, notes = unpacked(checkpoint)
    found = identify(checkpoint, max_model_len)
    tensors: dict[str, Raw] = {**checkpoint.tensors, **found.numbers}
    seen = _seen(found, Standing(tensors, numerics))
    weights = Weights(tensors, numerics, wrap)
    weights.notes |= dict.fromkeys([*notes, *seen.notes])
    weights.used |= found.read | _tied_head(found, checkpoint.tensors, weights.notes)
    _refuse(checkpoint, found, seen, weights)
    model = found.cls(found.config, weights, found.dialect, survey=seen)
    model.kept = kept
    model.specs()  # refuses what can't be kept so
    return model


def _seen(found: Loaded, weights: Standing) -> Survey:
    try:
        return survey(found.cls, found.config, weights, found.dialect)
    except ConfigError:
        raise
    except (CheckpointError, OpError) as e:
        kind = type(e) if isinstance(e, CheckpointError) else CheckpointError
        raise kind(f"{e}. Shapes follow from the config's {told(found.config)}") from e


def identify(checkpoint: Checkpoint, max_model_len: int | None = None) -> Loaded:
    """The class, config and spelling of a checkpoint, from its headers."""
    if checkpoint.kind == "gguf":
        return _identify_gguf(checkpoint, max_model_len)
    raw, file = checkpoint.config, str(checkpoint.directory / "config.json")
    names = raw.get("architectures")
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        raise ConfigError(f"{file}: architectures is {names!r:.80}; it must be a list of class names")
    raw = text_config(raw, file)
    cls = _decoder(find(names, ARCHITECTURES), raw)
    config = cls.read_config(cls.filled(raw), max_model_len, file=file)
    dialect = _bare(unwrapped(Dialect(cls.top, cls.names, cls.prefix), raw, checkpoint.tensors), checkpoint.tensors)
    return Loaded(cls, config, _upright(dialect, checkpoint.tensors), frozenset())


def _identify_gguf(checkpoint: Checkpoint, max_model_len: int | None) -> Loaded:
    weights, name = Weights(checkpoint.tensors), architecture_name(checkpoint.metadata)
    found = find([name], GGUF_ARCHITECTURES)
    raw, spelled = as_hf(checkpoint.metadata, weights)
    cls = _decoder(found, raw)
    config = cls.read_config(cls.filled(raw), max_model_len, file=str(checkpoint.path), spelled=spelled)
    return Loaded(cls, config, gguf_dialect(cls, name, checkpoint.tensors), frozenset(weights.used), numbers(checkpoint.metadata, name))


def _decoder(cls: type[object], raw: Json) -> type[Decoder]:
    if not issubclass(cls, Decoder):
        raise ConfigError(f"{cls.__name__} is no language model: it can't be loaded by itself")
    return cls.variant(raw)


def _bare(dialect: Dialect, tensors: Mapping[str, RawTensor]) -> Dialect:
    """The same tables, for a checkpoint of the body alone, whose names lack their first part."""
    first, _, rest = dialect.prefix.partition(".")
    if any(n.startswith(f"{first}.") for n in tensors) or not any(n.startswith(rest.format(0)) for n in tensors):
        return dialect
    stored = {n: dialect.find(n, dialect.top) for n in dialect.top}
    top: Names = {n: replace(s, path=s.path.removeprefix(f"{first}.")) for n, s in stored.items()}
    return replace(dialect, top=top, prefix=rest)


def _upright(dialect: Dialect, tensors: Mapping[str, RawTensor]) -> Dialect:
    """The same tables, for a checkpoint with quantised experts: those lie the right way round, whatever their family's dense ones do."""
    blocks = {re.sub(r"\d+", "0", n) for n, t in tensors.items() if isinstance(t.dtype, BlockFormat)}
    experts = {n: s for n in dialect.names if isinstance(s := dialect.find(n, dialect.names), StoredExperts) and isinstance(s.fix, Turned)}
    found = {n: s.fix.then for n, s in experts.items() if isinstance(s.fix, Turned) and dialect.prefix.format(0) + s.path in blocks}
    return replace(dialect, fixes={**dialect.fixes, **found})


def _tied_head(found: Loaded, tensors: Mapping[str, RawTensor], notes: dict[str, None]) -> set[str]:
    """The name of a head that is stored though it is the embedding; it is not read, and if it differs that is said."""
    head, table = (found.dialect.find(n, found.dialect.top).path + ".weight" for n in ("lm_head", "embed_tokens"))
    if not found.config.tied or head not in tensors:
        return set()
    if table in tensors and not _equal(tensors[head], tensors[table]):
        note = f"{head} is ignored: the config ties the head to {table}, which holds other values"
        notes[note] = None
        warnings.warn(note, stacklevel=3)
    return {head}


def _drafts(found: Loaded, checkpoint: Checkpoint) -> set[str]:
    """Names of the layers behind the last one that guess at further tokens (multi-token prediction)."""
    last, more = found.config.layers, int(found.config.rest.get("num_nextn_predict_layers") or 0)
    prefixes = tuple(found.dialect.prefix.format(i) for i in range(last, last + min(more, 16)))
    return {n for n in checkpoint.tensors if n.startswith(prefixes) or re.search(r"(^|\.)mtp[._]", n)} if prefixes else set()


def _spare(found: Loaded, checkpoint: Checkpoint) -> set[str]:
    """Names of weights that the family's checkpoints hold, and that its forward has no use for."""
    d = found.dialect
    names = {f"{d.prefix.format(i)}{d.find(name, d.names).path}.weight" for i, name in found.cls.spare(found.config)}
    return names & checkpoint.tensors.keys()


def _equal(a: RawTensor, b: RawTensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and np.array_equal(a.data, b.data)


def _refuse(checkpoint: Checkpoint, found: Loaded, seen: Survey, weights: Weights) -> None:
    """Raise what is wrong with names and shapes, all of it at once."""
    if towers := beside(found.dialect, checkpoint.tensors, seen.read | weights.used):
        parts = ", ".join(sorted({n.removeprefix("model.").split(".")[0] for n in towers}))
        weights.notes[f"{len(towers)} tensors of other parts are not read: {parts}"] = None
    if drafts := _drafts(found, checkpoint):
        weights.notes[f"{len(drafts)} tensors of layers that draft tokens are not read"] = None
    if spare := _spare(found, checkpoint) - seen.read:
        weights.notes[f"{len(spare)} tensors of layers that share what other layers keep are not read"] = None
    weights.used |= drafts.union(towers, spare)
    known = seen.read | weights.used
    unread = [n for n in checkpoint.tensors if n not in known and not any(fnmatch(n, p) for p in BUFFERS)] if seen.whole else []
    sentences = [f"{len(seen.missing)} missing: {listed(seen.missing)}"] if seen.missing else []
    sentences += [f"{len(unread)} that {found.cls.__name__} does not read: {listed(unread)}"] if unread else []
    sentences += [f"of wrong shape: {'; '.join(seen.wrong)}"] if seen.wrong else []
    if sentences:
        kind = TensorNamesError if seen.missing or unread else CheckpointError
        what = f"{checkpoint.path} holds tensors that don't make a {found.cls.__name__}: {'. '.join(sentences)}"
        raise kind(f"{what}. Shapes follow from the config's {told(found.config)}")


def listed(names: Iterable[str]) -> str:
    """Names in order; of very many, those that differ only by a number as one, with how many they are."""
    ordered = sorted(names)
    if len(ordered) <= SHOWN:
        return ", ".join(ordered)
    counts: dict[str, int] = {}
    for name in ordered:
        key = re.sub(r"\.\d+(?=\.|$)", ".*", name)
        counts[key] = counts.get(key, 0) + 1
    return ", ".join(f"{name} ({n})" if n > 1 else name for name, n in counts.items())
