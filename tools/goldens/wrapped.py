"""Text models within checkpoints for several media: one for each way of naming their tensors, and the positions with three axes."""

from __future__ import annotations

from typing import Any

from goldens.more_dense import HEAD24
from goldens.recipe import HIDDEN, LLAMA, NEAR, recipe, rope

IMAGES: dict[str, Any] = {"image_token_id": 302}
TOWER: dict[str, Any] = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "patch_size": 8}
QWEN_TOWER: dict[str, Any] = {"depth": 1, "num_heads": 2, "patch_size": 4, "spatial_merge_size": 2, "temporal_patch_size": 1}


def wrapped(name: str, family: str, text: dict[str, Any], tower: dict[str, Any], keep: tuple[str, ...] = (), **more: Any) -> None:
    """A recipe for a text model beside a tower."""
    numbers = {"text_config": text, "vision_config": tower, **more}
    recipe(name, "", numbers, model=f"{family}ForConditionalGeneration", config=f"{family}Config", keep=("vision_config", *keep))


TEXT = {**LLAMA, "model_type": "llama", "rope_parameters": rope()}
CLIP = {**TOWER, "model_type": "clip_vision_model", "image_size": 16, "projection_dim": 16}
wrapped("llava", "Llava", {**TEXT, **HEAD24}, CLIP, image_token_index=302)
wrapped("smolvlm", "SmolVLM", TEXT, {**TOWER, "model_type": "smolvlm_vision", "image_size": 16}, scale_factor=2, **IMAGES)
TURNED = rope(1e6, mrope_section=[2, 3, 3])
QWEN2_TOWER = {**QWEN_TOWER, "embed_dim": 16, "hidden_size": HIDDEN, "mlp_ratio": 1}
wrapped("qwen2_vl", "Qwen2VL", {**NEAR, "rope_parameters": TURNED}, QWEN2_TOWER, **IMAGES)
QWEN3_TOWER = {
    **QWEN_TOWER, "hidden_size": 16, "intermediate_size": 16, "out_hidden_size": HIDDEN, "num_position_embeddings": 4,
    "deepstack_visual_indexes": [0],
}  # fmt: skip
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "decoder_sparse_step": 1, "mlp_only_layers": []}
INTERLEAVED = rope(5e6, mrope_interleaved=True, mrope_section=[4, 4, 4])
wrapped("qwen3_vl_moe", "Qwen3VLMoe", {**NEAR, **HEAD24, **EXPERTS, "rope_parameters": INTERLEAVED}, QWEN3_TOWER, ("head_dim",), **IMAGES)
