"""Matrices that checkpoints keep as one: which rows are whose."""

from itertools import accumulate

from vtcore.models.config import ModelConfig
from vtcore.models.names import Names, Numbers, Rows, Stored, Turned

QKV = ("q_proj", "k_proj", "v_proj")


def _stacked(part: int) -> Rows:
    """All queries, then all keys, then all values."""

    def pick(rows: Numbers, c: ModelConfig) -> Numbers:
        edges = [0, *accumulate(n * c.head_dim for n in (c.heads, c.kv_heads, c.kv_heads))]
        return rows[edges[part] : edges[part + 1]]

    return Rows(pick)


def _grouped(part: int) -> Rows:
    """For each head of keys its queries, the key, the value."""

    def pick(rows: Numbers, c: ModelConfig) -> Numbers:
        each: Numbers = rows.reshape(c.kv_heads, -1, c.head_dim)
        return (each[:, :-2], each[:, -2], each[:, -1])[part].reshape(-1)

    return Rows(pick)


STACKED, GROUPED = tuple(map(_stacked, range(3))), tuple(map(_grouped, range(3)))
GATE, UP = Rows(lambda rows, c: rows[: rows.size // 2]), Rows(lambda rows, c: rows[rows.size // 2 :])


def qkv(path: str, fixes: tuple[Rows, ...], turned: bool = False) -> Names:
    """Queries, keys and values from one matrix and one bias."""
    return {n: Stored(path, Turned(fix) if turned else fix, both=True) for n, fix in zip(QKV, fixes, strict=True)}


def gate_up(path: str) -> Names:
    """Gate and up from one matrix and one bias."""
    return {"gate_proj": Stored(path, GATE, both=True), "up_proj": Stored(path, UP, both=True)}
