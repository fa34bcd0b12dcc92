"""Wrong attention, and wrong writes into its cache."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from vtcore.conformance.faults.fault import fault, right

Array = np.ndarray[Any, Any]


def _attend(**call: Any) -> Array:
    return np.asarray(right("paged_attention", **call))


@fault("paged_attention")
def window_one_wider(window: int, **call: Any) -> Array:
    """A window of w entries shows w + 1."""
    return _attend(window=window and window + 1, **call)


@fault("paged_attention")
def chunk_one_wider(chunk: int, **call: Any) -> Array:
    """Chunks are one entry longer."""
    return _attend(chunk=chunk and chunk + 1, **call)


@fault("paged_attention")
def mask_shifted(until: Array, **call: Any) -> Array:
    """A token doesn't see itself."""
    return _attend(until=np.maximum(until - 1, np.minimum(until, 0)), **call)


@fault("paged_attention")
def cap_missing(cap: float, **call: Any) -> Array:
    """Scores are not capped."""
    return _attend(**call)


@fault("paged_attention")
def cap_before_scale(cap: float, q: Array, scale: float, **call: Any) -> Array:
    """Scores are capped before they are scaled: another cap."""
    return _attend(cap=cap * scale, q=q, scale=scale, **call)


@fault("paged_attention")
def scale_of_padded_head(scale: float, q: Array, **call: Any) -> Array:
    """The scale is that of a head padded to a multiple of 64."""
    width = q.shape[-1]
    return _attend(q=q, scale=scale * (width / (-(-width // 64) * 64)) ** 0.5, **call)


@fault("paged_attention")
def sinks_ignored(sinks: Array | None, **call: Any) -> Array:
    """Sinks take no weight."""
    return _attend(**call)


@fault("paged_attention")
def slopes_reversed(slopes: Array | None, **call: Any) -> Array:
    """The far entries are favoured where the near ones should be."""
    return _attend(slopes=None if slopes is None else -slopes, **call)


@fault("paged_attention")
def heads_by_turns(q: Array, k_pages: Array, **call: Any) -> Array:
    """Query heads take the heads of K by turns, not as neighbours."""
    heads, group = k_pages.shape[2], q.shape[1] // k_pages.shape[2]
    order = np.arange(q.shape[1]).reshape(group, heads).T.reshape(-1)
    sunk = {n: None if call[n] is None else call[n][order] for n in ("sinks", "slopes")}
    out = np.empty((*q.shape[:2], call["v_pages"].shape[-1]), np.float32)
    out[:, order] = _attend(q=q[:, order], k_pages=k_pages, **call | sunk)
    return out


@fault("paged_attention")
def last_page_skipped(until: Array, k_pages: Array, **call: Any) -> Array:
    """Only whole pages are seen, if there is one."""
    page = k_pages.shape[1]
    whole = (until + 1) // page * page - 1
    return _attend(k_pages=k_pages, until=np.where(whole >= 0, whole, until).astype(until.dtype), **call)


@fault("paged_attention")
def pages_in_order(table: Array, k_pages: Array, **call: Any) -> Array:
    """Pages are read one behind the other, whatever the table says of the second and later ones."""
    return _attend(k_pages=k_pages, table=np.sort(table, axis=-1), **call)


@fault("attention")
def runs_ignored(q: Array, starts: Array, **call: Any) -> Array:
    """Tokens see those of other runs."""
    return np.asarray(right("attention", q=q, starts=starts[[0, -1]], **call))


@fault("attention")
def causal(q: Array, k: Array, v: Array, starts: Array, scale: float) -> Array:
    """Tokens don't see those behind them."""
    out = np.array(right("attention", q=q, k=k, v=v, starts=starts, scale=scale))
    for begin, end in pairwise(starts):
        for t in range(begin, end):
            run = np.array([begin, t + 1], np.int32)
            out[t] = right("attention", q=q, k=k, v=v, starts=run, scale=scale)[t]
    return out


@fault("write_pages")
def first_write_wins(pages: Array, values: Array, slots: Array) -> None:
    """Of a slot that is named twice the first token counts."""
    right("write_pages", pages=pages, values=values[::-1], slots=slots[::-1])


@fault("write_pages")
def cut_off(pages: Array, values: Array, slots: Array) -> None:
    """Values are cut to 16 bits, not rounded."""
    bits = np.asarray(values, np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    kept = bits.view(np.float32) if str(pages.dtype) == "bfloat16" else values
    right("write_pages", pages=pages, values=kept, slots=slots)


@fault("write_pages")
def nowhere_is_last(pages: Array, values: Array, slots: Array) -> None:
    """A slot of -1 is the last one."""
    right("write_pages", pages=pages, values=values, slots=slots % (pages.shape[0] * pages.shape[1]))


@fault("compressed_attention")
def far_entries_lost(lengths: Array, window: int, **call: Any) -> Array:
    """A token sees only half of what is near."""
    return np.asarray(right("compressed_attention", lengths=lengths, window=max(1, window // 2), **call))
