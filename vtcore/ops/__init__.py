"""The specification: every op by name. One file a family; a definition is plain NumPy, with its samples, tolerance and errors beside it."""

from vtcore.ops.activation import (
    gelu,
    gelu_erf_mul,
    gelu_mul,
    gelu_tanh,
    quick_gelu,
    quick_gelu_mul,
    relu,
    relu_squared,
    silu,
    silu_mul,
    situ_mul,
    softplus,
    swiglu_oai,
    xielu,
)
from vtcore.ops.attention import attention, paged_attention
from vtcore.ops.compressed import compress, compressed_attention
from vtcore.ops.elementwise import add, clamp, concat, mul, scale, sigmoid_mul, softcap
from vtcore.ops.embedding import embedding, look_up, place
from vtcore.ops.gates import over_bar, sigmoid, time_step
from vtcore.ops.hyper import hyper_head, hyper_in, hyper_out
from vtcore.ops.indexer import choose_entries
from vtcore.ops.linear import linear, linear_q8, per_head
from vtcore.ops.logits import (
    apply_logit_bias,
    apply_min_p,
    apply_penalties,
    apply_temperature,
    apply_token_mask,
    apply_top_k_top_p,
)
from vtcore.ops.mixture import experts, experts_q8
from vtcore.ops.norm import add_rms_norm, l2_norm, layer_norm, rms_norm
from vtcore.ops.pages import write_pages, write_pages_q8
from vtcore.ops.recurrent import causal_conv, gated_delta
from vtcore.ops.rope import dynamic_angles, position_growth, rope_angles, rotate
from vtcore.ops.routing import route, route_sparse
from vtcore.ops.sampling import argmax, log_softmax, random_sample, softmax, top_k
from vtcore.ops.scans import channel_scan, selective_scan
from vtcore.ops.streams import match_level, mix_streams

__all__ = [
    "add", "add_rms_norm", "apply_logit_bias", "apply_min_p", "apply_penalties", "apply_temperature", "apply_token_mask",
    "apply_top_k_top_p", "argmax", "attention", "causal_conv", "channel_scan", "choose_entries", "clamp", "compress",
    "compressed_attention", "concat", "dynamic_angles", "embedding", "experts", "experts_q8", "gated_delta", "gelu",
    "gelu_erf_mul", "gelu_mul", "gelu_tanh", "hyper_head", "hyper_in", "hyper_out", "l2_norm", "layer_norm", "linear",
    "linear_q8", "log_softmax", "look_up", "match_level", "mix_streams", "mul", "over_bar", "paged_attention", "per_head",
    "place", "position_growth", "quick_gelu", "quick_gelu_mul", "random_sample", "relu", "relu_squared", "rms_norm",
    "rope_angles", "rotate", "route", "route_sparse", "scale", "selective_scan", "sigmoid", "sigmoid_mul", "silu", "silu_mul", "situ_mul",
    "softcap", "softmax", "softplus", "swiglu_oai", "time_step", "top_k", "write_pages",
    "write_pages_q8", "xielu",
]  # fmt: skip
