"""MiniCPM3: MiniCPM's multipliers around latent attention."""

from typing import ClassVar

from vtcore.models.decoder import Names, architecture
from vtcore.models.latent import LatentAttention
from vtcore.models.minicpm import MiniCPM


@architecture("MiniCPM3ForCausalLM", gguf=("minicpm3",))
class MiniCPM3(LatentAttention, MiniCPM):
    names: ClassVar[Names] = MiniCPM.names | LatentAttention.latent_names
