"""What checkpoints of DeepSeek 4 say of their layers and ropes, in the words of the first ones or in those of transformers."""

from vtcore.errors import ConfigError
from vtcore.models.config import LAYERS
from vtcore.models.fields import Fields, Json
from vtcore.models.rope_config import turning

FOLDS = ("sliding_attention", "heavily_compressed_attention", "compressed_sparse_attention")  # by how many compressors they have
OVERLAPPING, MANY = 4, 128  # tokens of an entry


def read_ratios(f: Fields) -> Json:
    """Kinds of layers as the first checkpoints say them: by how many tokens an entry has (0 or 1: none; 4: with an indexer), and by how
    many layers name experts by token."""
    layers = f.integer("num_hidden_layers", high=LAYERS)
    out: Json = {}
    if not f.has("layer_types"):
        ratios = (f.indices("compress_ratios") or [])[:layers]
        many = sorted({r for r in ratios if r > 1 and r != OVERLAPPING})
        if len(ratios) < layers or len(many) > 1:
            raise ConfigError(f"{f.file}: compress_ratios is {ratios!r:.80}; it must have 0, 4 or one other number for each of {layers}")
        out["layer_types"] = [FOLDS[0 if r < 2 else 2 if r == OVERLAPPING else 1] for r in ratios]
        out["compress_rates"] = {FOLDS[2]: OVERLAPPING, FOLDS[1]: many[0] if many else MANY}
    if not f.has("mlp_layer_types"):
        hashed = f.integer("num_hash_layers", default=0, low=0, high=layers)
        out["mlp_layer_types"] = ["hash_moe"] * hashed + ["moe"] * (layers - hashed)
    return out


def read_ropes(f: Fields) -> Json:
    """The rope of plain layers and that of compressed ones, which alone is stretched."""
    if given := f.mapping("rope_parameters"):
        if not all(isinstance(given.get(part), dict) for part in ("main", "compress")):
            raise ConfigError(f"{f.file}: rope_parameters has {', '.join(map(repr, given))}; it must have main and compress, two objects")
        return {"rope_parameters": dict(zip(FOLDS, (given["main"], given["compress"], given["compress"]), strict=True))}
    part = turning(f.integer("qk_rope_head_dim"), f.integer("head_dim"))
    plain: Json = {"rope_type": "default", "rope_theta": f.number("rope_theta", low=1.0), "partial_rotary_factor": part}
    far = {**plain, **f.mapping("rope_scaling"), "rope_theta": f.number("compress_rope_theta", low=1.0)}
    far["rope_type"] = far.pop("type", far["rope_type"])
    return {"rope_parameters": dict(zip(FOLDS, (plain, far, far), strict=True)), "rope_scaling": None}
