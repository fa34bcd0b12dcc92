"""Stop texts in a stream: the result doesn't depend on how the text is cut, and nothing is held back in vain."""

from hypothesis import given
from hypothesis import strategies as st

from vtcore.stops import StopTexts


def feed(pieces, stops, include=False):
    watch = StopTexts(stops, include)
    shown = [watch.push(p) for p in pieces]
    return shown, shown + ([] if watch.found else [watch.finish()]), watch.found


def first_complete(text, stops):
    """By definition: the stop text that ends first, and of those the longest."""
    for end in range(1, len(text) + 1):
        done = [s for s in stops if text[:end].endswith(s)]
        if done:
            return end, max(done, key=len)
    return None


def test_only_what_may_begin_a_stop_text_is_held_back():
    shown, _, _ = feed(["abc", "def"], ["ZZZZZZZZZZZZ"])
    assert shown == ["abc", "def"]
    shown, everything, found = feed(["abZ", "Z", "c"], ["ZZZZZZZZZZZZ"])
    assert shown == ["ab", "", "ZZc"]
    assert found is None
    assert "".join(everything) == "abZZc"


def test_over_borders_of_pieces():
    shown, _, found = feed(["Hello, w", "or", "ld! and more"], ["world"])
    assert "".join(shown) == "Hello, "
    assert found == "world"
    shown, _, _ = feed(["Hello, w", "or", "ld! and more"], ["world"], include=True)
    assert "".join(shown) == "Hello, world"


def test_nothing_after_it():
    watch = StopTexts(["b"], include=False)
    assert watch.push("ab") == "a"
    assert watch.push("cb") == ""
    assert watch.found == "b"


def test_unarmed_it_passes_and_may_complete_later():
    watch = StopTexts(["aa"], include=False)
    assert watch.push("xaa", armed=False) == "xa"
    assert watch.push("a") == ""
    assert watch.found == "aa"


TEXT = st.text("ab", max_size=30)


@given(TEXT, st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=3), st.data(), st.booleans())
def test_any_cut_gives_what_the_definition_says(text, stops, data, include):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    shown, everything, found = feed(pieces, stops, include)
    expected = first_complete(text, stops)
    if expected is None:
        assert found is None
        assert "".join(everything) == text
        held = len(text) - len("".join(shown))
        longest = max(k for s in stops for k in range(len(s)) if text.endswith(s[:k]))
        assert held == longest
    else:
        end, stop = expected
        assert found == stop
        assert "".join(shown) == text[: end if include else end - len(stop)]


def test_linear_in_hostile_text():
    watch = StopTexts(["a" * 50_000 + "b"], include=False)
    for _ in range(20):
        watch.push("a" * 10_000)
    assert watch.push("b") == ""
    assert watch.found is not None
