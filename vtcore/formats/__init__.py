"""The files that models come in: GGUF, safetensors and the JSON beside them. `checkpoint.open_checkpoint` opens any of them."""
