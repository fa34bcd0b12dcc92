"""Why a token differs: each choice of arithmetic is really made, and named where it flips the token."""

import numpy as np
import pytest

from vtcore import LLM
from vtcore.dispatch import Dispatcher
from vtcore.errors import ArgumentError
from vtcore.ops import add_rms_norm, linear, rms_norm, write_pages
from vtcore.oracle.choices import Partial, choices, opener
from vtcore.oracle.explain import explain
from vtcore.oracle.followed import Followed, Said
from vtcore.providers import reference
from vtcore.rounding import DTYPES, Rounding
from vtcore.tensor import of

BF16 = DTYPES["bfloat16"]


@pytest.fixture(scope="module")
def rows(model, recording):
    answer = recording.answers[0]
    return {c: (logits, why) for c, logits, why in choices(opener(model, providers="reference"), list(answer.prompt_token_ids))}


def test_whole_choices_are_what_the_engine_computes(rows, model, recording):
    ids = list(recording.answers[0].prompt_token_ids)
    for dtype in (None, "bfloat16", "float16"):
        with LLM(model, providers="reference", dtype=dtype) as llm:
            wanted = llm.logits(ids)[-1]
        np.testing.assert_array_equal(rows["float32, exact" if dtype is None else f"{dtype} everywhere"][0], wanted)


def test_every_op_is_rounded_alone(rows):
    exact = rows["float32, exact"][0]
    for dtype in DTYPES:
        ops = {c.split()[2] for c in rows if c.startswith(f"{dtype} at")}
        assert ops >= {"linear", "rms_norm", "paged_attention", "silu_mul", "rotate", "rope_angles", "write_pages"}
        for op in ops:
            assert 0 < np.abs(rows[f"{dtype} at {op} alone"][0] - exact).max() < 0.1, op
        assert 0 < np.abs(rows[f"{dtype} weights alone"][0] - exact).max() < 0.1


def test_a_choice_that_cant_be_made_says_why(rows):
    logits, why = rows["8-bit activations (fast)"]
    assert logits is None
    assert "numerics 'fast' has no effect" in why


def test_partial_rounding_takes_the_whole_rule_and_nothing_else():
    rng = np.random.default_rng(0)
    x, w = (of(rng.normal(0, 1, s).astype(np.float32)) for s in ((3, 8), (8,)))

    def run(rounding, op, *arguments):
        with rounding:
            out = op(*arguments)
        return [t.numpy() for t in out] if isinstance(out, tuple) else [out.numpy()]

    dispatcher = Dispatcher([reference.provider])
    for op, arguments in ((rms_norm, (x, w, 1e-6)), (add_rms_norm, (x, x, w, 1e-6))):
        whole = run(Rounding(dispatcher, BF16), op, *arguments)
        for got, wanted in zip(run(Partial(dispatcher, BF16, frozenset({op.name})), op, *arguments), whole, strict=True):
            np.testing.assert_array_equal(got, wanted)
        for got, wanted in zip(
            run(Partial(dispatcher, BF16, frozenset({"linear"})), op, *arguments), run(dispatcher, op, *arguments), strict=True
        ):
            np.testing.assert_array_equal(got, wanted)
    assert not np.array_equal(run(dispatcher, linear, x, x)[0], run(Partial(dispatcher, BF16, frozenset({"linear"})), linear, x, x)[0])


def test_what_is_kept_can_be_rounded_alone():
    pages, values = of(np.zeros((2, 4, 1), np.float32)), of(np.float32([[1 + 2**-12], [3.0]]))
    with Partial(Dispatcher([reference.provider]), BF16, frozenset({"write_pages"})):
        write_pages(pages, values, of(np.int32([4, 5])))
    assert pages.numpy()[1, :2, 0].tolist() == [1.0, 3.0]


class Saying:
    """An engine that says one other token."""

    def __init__(self, position, token):
        self.position, self.token = position, token

    def follow(self, answer):
        said = [Said(t) for t in answer.token_ids]
        said[self.position] = Said(self.token, text="?")
        return Followed(tuple(said), "so")


def few(model, recording, monkeypatch, rows):
    """Explain with made-up choices, so that no model runs."""
    monkeypatch.setattr("vtcore.oracle.explain.choices", lambda open_model, ids: iter(rows(ids)))
    return lambda **options: explain(recording, 1, opener(model), **options)


def test_what_flips_is_named_and_single_ops_are_sorted(model, recording, monkeypatch):
    answer = recording.answers[0]
    first, second = answer.top_ids[2, :2].tolist()

    def made(ids):
        assert ids == [*answer.prompt_token_ids, *answer.token_ids[:2]]
        for choice, margin in (
            ("float32, exact", 0.5),
            ("bfloat16 everywhere", -0.1),
            ("bfloat16 at add alone", 0.4),
            ("bfloat16 at mul alone", -0.2),
        ):
            row = np.zeros(257, np.float32)
            row[[first, second]] = 5 + margin, 5
            yield choice, row, ""
        yield "fast", None, "not here"

    found = few(model, recording, monkeypatch, made)(position=2)
    assert [r.choice for r in found.replays] == [
        "float32, exact", "bfloat16 everywhere", "fast", "bfloat16 at mul alone", "bfloat16 at add alone",
    ]  # fmt: skip
    assert [r.flips for r in found.replays] == [False, True, False, True, False]
    assert [round(r.margin, 3) for r in found.replays] == [0.5, -0.1, 0.0, -0.2, 0.4]
    text = str(found)
    assert "flipped by 2 of 5: bfloat16 everywhere, bfloat16 at mul alone" in text
    assert "fast                   -" in text
    assert f"recorded margin {found.recorded_margin:.3g}" in text


def test_which_position_is_replayed(model, recording, monkeypatch):
    ask = few(model, recording, monkeypatch, lambda ids: [("float32, exact", np.zeros(257, np.float32), "")])
    answer = recording.answers[0]
    nearest = ask()
    assert (nearest.position, nearest.rival) == (int(answer.margins.argmin()), answer.top_ids[nearest.position, 1])
    rival = ask(engine=Saying(3, 65))
    assert (rival.position, rival.rival, rival.chosen_by) == (3, 65, rival.chosen_by)
    assert rival.chosen_by.startswith("the engine says")
    assert ask(position=3, engine=Saying(3, 65)).rival == 65
    for options, words in (
        ({"position": 6}, "position is 6; the answer has tokens 0 to 5"),
        ({"position": 2, "engine": Saying(3, 65)}, "differs in not token 2|not token 2"),
        ({"engine": Saying(3, answer.token_ids[3])}, "no token of this answer"),
        ({"engine": Saying(3, None)}, "has no id here"),
    ):
        with pytest.raises(ArgumentError, match=words):
            ask(**options)
    with pytest.raises(ArgumentError, match="prompt is 9; the recording has prompts 1 to 5"):
        explain(recording, 9, opener(model))
