import gc

import pytest

from vtcore.collector import loading, uncollected


@pytest.mark.parametrize("context", [uncollected, loading])
@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_off_inside_and_afterwards_as_before(context, enabled):
    if not enabled:
        gc.disable()
    try:
        with context():
            assert not gc.isenabled()
        assert gc.isenabled() is enabled
    finally:
        gc.unfreeze()
        gc.enable()


def test_what_was_made_while_loading_is_not_walked_over_again():
    try:
        with loading():
            made = [[i] for i in range(100)]
        assert gc.get_freeze_count() >= len(made)
    finally:
        gc.unfreeze()
