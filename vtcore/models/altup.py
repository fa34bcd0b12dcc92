"""Alternating updates: a residual of several streams, of which a layer computes one and guesses the others (Baykal and others, 2023)."""

from typing import ClassVar

from vtcore.models.decoder import Array, Decoder, Layer, Names, Step, Stored, Values, flat, heads
from vtcore.ops import add, concat, match_level, mix_streams, mul, per_head, scale, softcap

FLOOR = 1e-5  # of a stream's mean square
SIDE_BY_SIDE = Values(lambda weight, c: weight.reshape(-1, weight.shape[-1]))
TURNED = Values(lambda weight, c: weight.swapaxes(1, 2))


class AltUp(Decoder):
    """x is [T, S, hidden]. A layer begins with `guess`, computes `active` of it, and ends with `correct`."""

    altup_top: ClassVar[Names] = {
        "spread": Stored("model.altup_projections.{}", SIDE_BY_SIDE),  # [(S - 1) * hidden, hidden]
        "gather": Stored("model.altup_unembed_projections.{}", TURNED),  # [S - 1, hidden, hidden]
    }
    altup_names: ClassVar[Names] = {
        "predict": "altup.prediction_coefs",
        "correction": "altup.correction_coefs",
        "modality": "altup.modality_router",
        "modality_norm": "altup.router_norm",
    }

    def embed(self, step: Step) -> Array:
        x = super().embed(step)
        others = match_level(heads(self.top_weights.spread(x), x.shape[1]), x, FLOOR)
        return heads(concat(x, flat(others)), x.shape[1])

    def active(self, x: Array) -> Array:
        """The stream that layers compute, [T, hidden]."""
        return x[:, self.config.altup_active_idx]

    def modalities(self, w: Layer, x: Array) -> Array:
        """[T, S] between -1 and 1: what the coefficients of streams are made of."""
        return softcap(w.modality(scale(self.norm(x, w.modality_norm), 1 / self.config.hidden)), 1.0)

    def guess(self, w: Layer, x: Array) -> Array:
        """What all streams will be after the layer."""
        return add(x, mix_streams(x, heads(w.predict(self.modalities(w, self.active(x))), x.shape[1])))

    def correct(self, w: Layer, x: Array, out: Array) -> Array:
        """The guess, moved by what the layer's output has and the guess had not."""
        news = add(out, scale(self.active(x), -1.0))[:, None]
        shares = w.correction(self.modalities(w, out))
        return add(x, add(news, mul(shares.reshape(*shares.shape, 1), news)))

    def finish(self, x: Array) -> Array:
        """The mean of the streams, brought to one level, normalised."""
        out, others = x[:, 0], match_level(per_head(x[:, 1:], self.top_weights.gather.weight), x[:, 0], FLOOR)
        for i in range(others.shape[1]):
            out = add(out, others[:, i])
        return super().finish(scale(out, 1 / x.shape[1]))
