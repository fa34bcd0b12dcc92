"""The writes into a paged cache, whatever order its pages lie in."""

from __future__ import annotations

from math import prod

from vtcore import ops
from vtcore.ops.pages import CODES
from vtcore.providers.portable.arrays import contiguous, dtype_of, float32_rows, not_float, not_kept
from vtcore.providers.portable.jit import kernel
from vtcore.providers.portable.lanes import SIZES, Lanes
from vtcore.providers.portable.launch import Word
from vtcore.providers.portable.provider import Portable
from vtcore.providers.portable.value import F32, I8, I32, Val
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
    return not_kept(pages=pages) or not_float(values=values)


@kernel(
    "values slots tokens page heads width token_stride head_stride page_stride slot_stride kv_stride column_stride "
    "scale_page scale_slot scale_head scales -> pages"
)
def write_q8(k: Lanes, values: Val, slots: Val, tokens: Val, page: Val, heads: Val, width: Val, token_stride: Val, head_stride: Val,
             page_stride: Val, slot_stride: Val, kv_stride: Val, column_stride: Val, scale_page: Val, scale_slot: Val, scale_head: Val,
             scales: Val, pages: Val, *, ints: str) -> None:  # fmt: skip
    """Heads are shared out, as in `write`. As integers, the bits of a NaN's magnitude are above those of every number."""
    for h in k.share(heads):
        for t in k.range(tokens):
            slot = k.integer(slots + t * SIZES[ints], ints)
            with k.when(slot > -1):
                source, number, place = values + (t * token_stride + h * head_stride) * 4, slot // page, slot % page
                largest = k.var(k.ints(0))
                for i, count in k.vectors(width):
                    bits = k.floats(source + i * 4, "float32", count).cast("bitcast", I32)
                    largest.set(k.max(largest.get(), bits & 0x7FFFFFFF))
                scale = k.hmax(largest.get()).cast("bitcast", F32) / float(CODES)
                k.put_number(scales + (number * scale_page + place * scale_slot + h * scale_head) * 4, scale)
                target = pages + number * page_stride + place * slot_stride + h * kv_stride
                for i in k.range(width):
                    share = k.number(source + i * 4) / scale
                    code = k.select(share.unordered(), k.lift(0, I32), k.rounded(k.clamp(share, -float(CODES), float(CODES))))
                    k.store(target + i * column_stride, code.cast("trunc", I8))


def _declines_q8(pages: Tensor, scales: Tensor, values: Tensor, slots: Tensor) -> str | None:
    return _declines(pages, values, slots)


def register(p: Portable) -> None:
    """write_pages and write_pages_q8."""

    @p.kernel(ops.write_pages_q8, declines=_declines_q8)
    def write_pages_q8(pages: Tensor, scales: Tensor, values: Tensor, slots: Tensor) -> None:
        if dtype_of(values) != "float32" or values.strides[-1] != 1:
            values = float32_rows(p, values) if values.contiguous else contiguous(p, values)
        tokens, heads, width = values.shape
        words: list[Word] = [
            values, slots, tokens, pages.shape[1], heads, width, *values.strides[:2], *pages.strides, *scales.strides, scales, pages,
        ]  # fmt: skip
        p.launch(write_q8, words, 4 * values.size, ints=dtype_of(slots))

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
