"""The write into a paged cache, whatever order its pages lie in."""

from __future__ import annotations

from math import prod

from vtcore import ops
from vtcore.providers.portable.arrays import contiguous, dtype_of, float32_rows, not_float
from vtcore.providers.portable.jit import kernel
from vtcore.providers.portable.lanes import SIZES, Lanes
from vtcore.providers.portable.launch import Word
from vtcore.providers.portable.provider import Portable
from vtcore.providers.portable.value import Val
from vtcore.tensor import Tensor


@kernel("values slots tokens page heads width token_stride head_stride page_stride slot_stride kv_stride column_stride -> pages")
def write(k: Lanes, values: Val, slots: Val, tokens: Val, page: Val, heads: Val, width: Val, token_stride: Val, head_stride: Val,
          page_stride: Val, slot_stride: Val, kv_stride: Val, column_stride: Val, pages: Val,
          *, dtype: str, even: bool, ints: str) -> None:  # fmt: skip
    """Heads are shared out, not tokens: of a slot that is named twice the last token counts. even: columns lie side by side."""
    size = SIZES[dtype]
    for h in k.share(heads):
        for t in k.range(tokens):
            slot = k.integer(slots + t * SIZES[ints], ints)
            with k.when(slot > -1):
                source = values + (t * token_stride + h * head_stride) * 4
                target = pages + (slot // page * page_stride + slot % page * slot_stride + h * kv_stride) * size
                if even:
                    for i, count in k.vectors(width):
                        k.put(target + i * size, k.floats(source + i * 4, "float32", count), dtype, count)
                else:
                    for i in k.range(width):
                        k.put_number(target + i * column_stride * size, k.number(source + i * 4), dtype)


def _declines(pages: Tensor, values: Tensor, slots: Tensor) -> str | None:
    if dtype_of(slots) not in ("int32", "int64") or not slots.contiguous:
        return f"slots is {slots.dtype} with strides {list(slots.strides)}; the kernel reads contiguous int32 or int64"
    if not 2 <= pages.ndim <= 4:
        return f"pages has {pages.ndim} axes; the kernel takes 2 to 4"
    return not_float(pages=pages, values=values)


def register(p: Portable) -> None:
    """write_pages."""

    @p.kernel(ops.write_pages, declines=_declines)
    def write_pages(pages: Tensor, values: Tensor, slots: Tensor) -> None:
        if values.ndim < 3 or dtype_of(values) != "float32" or values.strides[-1] != 1:
            values = float32_rows(p, values) if values.contiguous else contiguous(p, values)
        rest, (tokens, *_) = pages.shape[2:], values.shape
        strides = (0, 0, *pages.strides[2:])[-2:] if rest else (0, 0)
        heads, width = (rest[0], rest[1]) if len(rest) == 2 else (1, prod(rest))
        steps = values.strides[:2] if values.ndim == 3 else (width, 0)
        words: list[Word] = [values, slots, tokens, pages.shape[1], heads, width, *steps, *pages.strides[:2], *strides, pages]
        even = width == 1 or strides[1] == 1
        p.launch(write, words, 2 * values.size, dtype=dtype_of(pages), even=even, ints=dtype_of(slots))
