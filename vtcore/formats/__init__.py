"""The files that models come in: GGUF, safetensors and the JSON beside them. `vtcore.formats.checkpoint.open_checkpoint` opens any of them."""
