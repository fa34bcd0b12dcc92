"""Side by side: Llama, with attention and MLP both reading the layer's input, after one norm or a norm for each."""

from vtcore.models.decoder import Array, Layer, Step
from vtcore.models.llama import Llama
from vtcore.ops import add


class OneNorm(Llama):
    def layer(self, w: Layer, x: Array, step: Step) -> Array:
        h = self.norm(x, w.input_layernorm)
        return add(x, add(self.attend(w, h, step), self.mlp(w, h, step)))


class TwoNorms(Llama):
    def layer(self, w: Layer, x: Array, step: Step) -> Array:
        a = self.attend(w, self.norm(x, w.input_layernorm), step)
        return add(x, add(a, self.mlp(w, self.norm(x, w.post_attention_layernorm), step)))
