"""Who computes what next: plans of token counts, without arithmetic or tensors."""
