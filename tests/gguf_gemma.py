"""The numbers and value changes of llama.cpp's converter for Gemma 3n and 4, for `gguf_families`. Written from what the converter does,
without the reader's tables."""

from statistics import NormalDist
from typing import Any

import gguf
import numpy as np

Config = dict[str, Any]
BARE = ("layer_scalar", "correct_output_scale")  # what gets a .weight behind its name


def gemma4(writer: gguf.GGUFWriter, c: Config, s: Any) -> None:
    """Of two widths of heads, the file's plain keys tell the wider one's."""
    kinds = [t == "sliding_attention" for t in c["layer_types"]]
    own = c["per_layer_config"]
    wide = next(iter(own.values()))["head_dim"]
    for add, add_small in (
        (writer.add_key_length, writer.add_key_length_swa),
        (writer.add_value_length, writer.add_value_length_swa),
        (writer.add_rope_dimension_count, writer.add_rope_dimension_count_swa),
    ):
        add(wide)
        add_small(s.head)
    writer.add_rope_freq_base_swa(c["rope_parameters"]["sliding_attention"]["rope_theta"])
    writer.add_sliding_window_pattern(kinds)
    writer.add_shared_kv_layers(c["num_kv_shared_layers"])
    writer.add_embedding_length_per_layer_input(c["hidden_size_per_layer_input"])
    writer.add_final_logit_softcapping(c["final_logit_softcapping"])
    if c["use_double_wide_mlp"]:
        first = s.layers - c["num_kv_shared_layers"]
        writer.add_feed_forward_length([c["intermediate_size"] * (2 if i >= first else 1) for i in range(s.layers)])
    if any("num_key_value_heads" in o for o in own.values()):
        writer.add_head_count_kv([own.get(str(i), {}).get("num_key_value_heads", s.kv_heads) for i in range(s.layers)])


def gemma3n(writer: gguf.GGUFWriter, c: Config, s: Any) -> None:
    writer.add_altup_active_idx(c["altup_active_idx"])
    writer.add_altup_num_inputs(c["altup_num_inputs"])
    writer.add_embedding_length_per_layer_input(c["hidden_size_per_layer_input"])
    writer.add_shared_kv_layers(c["num_kv_shared_layers"])
    writer.add_activation_sparsity_scale([NormalDist().inv_cdf(p) if p else -np.inf for p in c["activation_sparsity_pattern"]])
    writer.add_sliding_window_pattern([t == "sliding_attention" for t in c["layer_types"]])
    writer.add_rope_freq_base_swa(c["rope_parameters"]["sliding_attention"]["rope_theta"])
    writer.add_final_logit_softcapping(c["final_logit_softcapping"])


def stacked(weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The matrices between the first stream and each other one, as one tensor."""
    out = {n: a for n, a in weights.items() if "altup_" not in n}
    for name in ("altup_projections", "altup_unembed_projections"):
        out[f"model.{name}.weight"] = np.stack([a for n, a in sorted(weights.items()) if f".{name}." in n])
    return out
