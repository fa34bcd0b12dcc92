"""An MLP's activation by the name that checkpoints give it: alone, and as the gate of a product."""

from vtcore.op import Op
from vtcore.ops import gelu, gelu_erf_mul, gelu_mul, gelu_tanh, quick_gelu, quick_gelu_mul, relu, relu_squared, silu, silu_mul

GATES: dict[str, Op] = {
    "silu": silu_mul,
    "swish": silu_mul,
    "gelu": gelu_erf_mul,
    "gelu_new": gelu_mul,
    "gelu_fast": gelu_mul,
    "gelu_pytorch_tanh": gelu_mul,
    "quick_gelu": quick_gelu_mul,
}
MIXED = {"silu": "silu", "swish": "silu", "gelu_new": "gelu", "gelu_fast": "gelu", "gelu_pytorch_tanh": "gelu"}  # as experts' op calls it
SILU: dict[str, Op] = {"silu": silu_mul, "swish": silu_mul}  # where convolutions have it too
PLAIN: dict[str, Op] = {
    "silu": silu,
    "swish": silu,
    "gelu": gelu,
    "gelu_new": gelu_tanh,
    "gelu_fast": gelu_tanh,
    "gelu_pytorch_tanh": gelu_tanh,
    "quick_gelu": quick_gelu,
    "relu": relu,
    "relu2": relu_squared,
}
ACTIVATIONS = frozenset(GATES) | frozenset(PLAIN) | {"xielu", "situ"}
