import pytest

from vtcore.errors import ArgumentError
from vtcore.numerics import NO_PRODUCTS, PRODUCTS, check_fast
from vtcore.provider import Provider

PLAIN, ABLE = Provider("plain"), Provider("able", facts={PRODUCTS: "a library"})
UNABLE = Provider("unable", facts={NO_PRODUCTS: "the library isn't here"})


@pytest.mark.parametrize(
    ("numerics", "formats", "providers"),
    [
        ("exact", ["bfloat16"], [PLAIN]),
        ("fast", ["Q4_K", "float32"], [PLAIN]),
        ("fast", ["bfloat16"], [PLAIN, ABLE]),
        ("fast", ["F8_E4M3", "float32"], [ABLE]),
    ],
)
def test_where_fast_numerics_change_something(numerics, formats, providers):
    check_fast(numerics, formats, providers)


@pytest.mark.parametrize(
    ("formats", "providers", "words"),
    [
        (["bfloat16", "float32"], [PLAIN], "and these are bfloat16, float32$"),
        (["bfloat16"], [UNABLE, PLAIN], "and these are bfloat16; the library isn't here$"),
        (["F8_E4M3"], [ABLE], "and these are F8_E4M3$"),
    ],
)
def test_where_they_change_nothing(formats, providers, words):
    with pytest.raises(ArgumentError, match=f"numerics 'fast' has no effect: it needs weights in blocks of integers, {words}"):
        check_fast("fast", formats, providers)
