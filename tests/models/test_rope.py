"""Frequencies of every kind of rope, against values worked out by hand or reported by others."""

import math

import numpy as np
import pytest

from vtcore.errors import ConfigError
from vtcore.models.rope import FORMULAS, make_rope
from vtcore.ops import dynamic_angles


def rope(width=64, **p):
    return make_rope({"rope_theta": 10000.0, "max_position_embeddings": 4096, "original_max_position_embeddings": 4096} | p, width)


def raw(width, theta):
    return [theta ** (-2 * i / width) for i in range(width // 2)]


def close(got, want):
    np.testing.assert_allclose(got, want, rtol=3e-6)


def test_default():
    r = rope(8)
    close(r.frequencies, [1, 0.1, 0.01, 0.001])
    assert (r.frequencies.dtype, r.scale, r.axes, r.dynamic) == (np.float32, 1.0, None, None)


def test_partial():
    close(rope(64, partial_rotary_factor=0.25).frequencies, raw(16, 1e4))


def test_linear_divides():
    close(rope(8, rope_type="linear", factor=8.0).frequencies, np.array([1, 0.1, 0.01, 0.001]) / 8)


def test_llama3_leaves_fast_ones_slows_slow_ones_and_goes_over_between():
    p = {
        "rope_type": "llama3",
        "rope_theta": 5e5,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    f, plain = rope(64, factor=32.0, **p).frequencies, np.array(raw(64, 5e5))
    close(f[:15], plain[:15])
    close(f[[14, 15, 16, 17, 18, 31]], [3.2114460e-3, 1.2905479e-3, 4.2955680e-4, 9.7082878e-5, 1.9461638e-5, 9.4183067e-8])
    close(f[18:], plain[18:] / 32)
    wide = rope(128, factor=8.0, **p).frequencies
    close(wide[[29, 34]], [2.1665708e-3, 1.7850781e-4])
    close(wide[:29], raw(128, 5e5)[:29])
    close(wide[35:], np.array(raw(128, 5e5)[35:]) / 8)


def test_yarn_goes_over_between_its_borders():
    """By hand: 32 turns in 4096 positions fall between channels 20 and 21 of 128, one turn between 45 and 46."""
    low = math.floor(128 * math.log(4096 / (32 * 2 * math.pi)) / (2 * math.log(10000)))
    high = math.ceil(128 * math.log(4096 / (2 * math.pi)) / (2 * math.log(10000)))
    assert (low, high) == (20, 46)
    f, plain = rope(128, rope_type="yarn", factor=4.0).frequencies, np.array(raw(128, 1e4))
    close(f[: low + 1], plain[: low + 1])
    close(f[high:], plain[high:] / 4)
    close(f[33], plain[33] * (0.5 + 0.5 / 4))


def test_yarn_without_truncation_keeps_fractions():
    low = 64 * math.log(4096 / (32 * 2 * math.pi)) / (2 * math.log(10000))
    high = 64 * math.log(4096 / (2 * math.pi)) / (2 * math.log(10000))
    ramp = (16 - low) / (high - low)
    got = rope(64, rope_type="yarn", factor=4.0, truncate=False).frequencies[16]
    close(got, raw(64, 1e4)[16] * (1 - ramp + ramp / 4))


@pytest.mark.parametrize(
    ("extra", "scale"),
    [
        ({"mscale": 1.0, "mscale_all_dim": 1.0}, 1.0),
        ({}, 1.2772589),
        ({"attention_factor": 1.5}, 1.5),
        ({"mscale": 0.707, "mscale_all_dim": 1.0}, (0.0707 * math.log(16) + 1) / 1.2772589),
        ({"mscale": 1.0}, 1.2772589),
    ],
)
def test_yarn_s_amplitude(extra, scale):
    assert rope(rope_type="yarn", factor=16.0, **extra).scale == pytest.approx(scale, rel=1e-7)


def test_yarn_without_a_factor_takes_it_from_the_lengths():
    given = rope(rope_type="yarn", factor=8.0, max_position_embeddings=32768)
    derived = rope(rope_type="yarn", max_position_embeddings=32768)
    np.testing.assert_array_equal(given.frequencies, derived.frequencies)
    assert given.scale == derived.scale


def long(served, width=8, **p):
    kept = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [4.0] * 4, "original_max_position_embeddings": 16}
    return rope(width, **kept | {"max_position_embeddings": 64, "max_model_len": served} | p)


@pytest.mark.parametrize(("served", "divisor"), [(15, 1), (16, 1), (17, 4)])
def test_longrope_turns_long_strictly_above_the_original_length(served, divisor):
    close(long(served).frequencies, np.array(raw(8, 1e4)) / divisor)


def test_longrope_s_amplitude_and_what_overrides_it():
    lengths = {"max_position_embeddings": 131072, "original_max_position_embeddings": 4096}
    assert long(131072, **lengths).scale == pytest.approx(1.1902381, rel=1e-7)
    assert long(64, **lengths).scale == pytest.approx(1.1902381, rel=1e-7)
    own = lengths | {"short_mscale": 1.0, "long_mscale": 1.5}
    assert (long(64, **own).scale, long(131072, **own).scale) == (1.0, 1.5)
    assert long(64, **lengths, attention_factor=1.25).scale == 1.25


def test_a_dynamic_rope_leaves_the_base_to_the_op():
    r = rope(8, rope_type="dynamic", factor=2.0)
    close(r.frequencies, raw(8, 1e4))
    assert r.dynamic == (1e4, 4096, 2.0)


def test_a_dynamic_rope_served_below_its_length_is_plain():
    """The bare formula would raise a negative number to a fraction."""
    angles = dynamic_angles(np.arange(4, dtype=np.int32), np.array([0, 4], np.int32), np.array([512], np.int32), 1e4, 2048, 2.0, 8)
    np.testing.assert_allclose(angles[1, 0], np.cos(raw(8, 1e4)), rtol=1e-6)
    assert np.isfinite(angles).all()


def test_a_dynamic_rope_does_not_see_how_a_prompt_is_cut():
    p = np.arange(20, dtype=np.int32)

    def angles(begin, end, known):
        return dynamic_angles(p[begin:end], np.array([0, end - begin], np.int32), np.array([known], np.int32), 1e4, 8, 2.0, 8)

    whole = angles(0, 20, 20)
    np.testing.assert_array_equal(np.concatenate([angles(0, 7, 20), angles(7, 20, 20)]), whole)
    np.testing.assert_array_equal(angles(19, 20, 5), angles(19, 20, 20))  # an answer's token goes by its own place


@pytest.mark.parametrize("p", [{"rope_type": "dynamic", "alpha": 1000.0, "factor": 1.0}, {"rope_type": "ntk", "factor": 1000.0}])
def test_a_fixed_ntk_raises_the_base_once(p):
    r = rope(8, **p)
    close(r.frequencies, raw(8, 1e4 * 1000 ** (8 / 6)))
    assert r.dynamic is None


def test_proportional_turns_the_first_part_of_the_whole_head():
    close(rope(8, rope_type="proportional", partial_rotary_factor=0.5).frequencies, [1, 0.1, 0, 0])


def test_divided_as_gguf_keeps_llama3():
    close(rope(8, rope_type="divided", divisors=[1.0, 1.0, 2.0, 8.0]).frequencies, [1, 0.1, 0.005, 0.000125])


def test_axes_of_a_multimodal_rope():
    assert rope(16, mrope_section=[2, 3, 3]).axes.tolist() == [0, 0, 1, 1, 1, 2, 2, 2]
    assert rope(16, mrope_section=[4, 2, 2], mrope_interleaved=True).axes.tolist() == [0, 1, 2, 0, 1, 2, 0, 0]


@pytest.mark.parametrize(
    ("width", "p", "words"),
    [
        (7, {}, "rope turns 7 of a head's 7 channels (by head_dim"),
        (64, {"partial_rotary_factor": 0.01}, "rope turns 0 of a head's 64"),
        (64, {"partial_rotary_factor": 1.5}, "partial_rotary_factor is 1.5"),
        (64, {"rope_theta": 0}, "rope_theta is 0; it must be a number above 1"),
        (64, {"rope_theta": "big"}, "rope_theta is 'big'"),
        (64, {"rope_type": "spiral"}, "rope_type is 'spiral'; it must be one of default, divided, dynamic"),
        (64, {"rope_type": ["linear"]}, "rope_type is ['linear']"),
        (64, {"rope_type": "linear"}, "has no factor; it must be a number above 0"),
        (64, {"rope_type": "linear", "factor": 0.0}, "factor is 0.0"),
        (
            64,
            {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 1.0},
            "high_freq_factor is 1 and low_freq_factor 4; the first must be",
        ),
        (
            4,
            {"rope_type": "longrope", "short_factor": [1.0], "long_factor": [1.0, 2.0]},
            "short_factor is [1.0] (1 entries); it must be a list of 2",
        ),
        (4, {"rope_type": "longrope", "short_factor": [1, 1], "long_factor": [1, float("nan")]}, "long_factor is [1, nan]"),
        (4, {"rope_type": "longrope"}, "has no long_factor"),
        (2, {"rope_type": "dynamic", "factor": 2.0}, "a dynamic rope of 2 channels is not defined"),
        (16, {"mrope_section": [1, 1, 1]}, "mrope_section [1, 1, 1] adds up to 3; it must be 8"),
    ],
)
def test_what_is_refused(width, p, words):
    with pytest.raises(ConfigError) as e:
        rope(width, **p)
    assert words in str(e.value)


def test_every_kind_is_tested_here():
    named = {"default", "linear", "dynamic", "ntk", "divided", "llama3", "yarn", "longrope", "proportional"}
    assert set(FORMULAS) == named


@pytest.mark.parametrize(
    "parameters",
    [
        {"rope_type": "linear", "factor": 1e-300},
        {"rope_type": "llama3", "factor": 1e-300, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64},
        {"rope_type": "dynamic", "alpha": 1e-300},
        {"rope_type": "yarn", "factor": 1e-300, "original_max_position_embeddings": 64},
        {"rope_type": "longrope", "short_factor": [1e-300] * 4, "long_factor": [1.0] * 4, "original_max_position_embeddings": 128},
    ],
)
def test_numbers_that_float32_does_not_hold_are_refused(parameters):
    with np.errstate(all="ignore"), pytest.raises(ConfigError, match=f"{parameters['rope_type']}.* make frequencies or a scale"):
        make_rope({"rope_theta": 1e4, "max_position_embeddings": 128} | parameters, 8)
