"""Bands behind what a device's memory gives out."""

import numpy as np
import pytest

from vtcore.conformance.guards import Outputs
from vtcore.memory import HostMemory


class Far(HostMemory):
    """Stands for a device's memory: host bytes that count as elsewhere."""

    name = "far"


@pytest.mark.parametrize(("written", "intact"), [(100, True), (101, False)])
def test_a_piece_that_is_given_out_again_has_the_band_of_its_new_size(written, intact):
    memory = Far()
    outputs = Outputs(memory)
    with outputs.guard():
        first = memory.alloc(100)
        memory.upload(first, 0, np.zeros(written, np.uint8))
        memory.release(first)
        second = memory.alloc(300)
        memory.upload(second, 0, np.zeros(300, np.uint8))
    assert second.buffer is first.buffer
    assert outputs.intact == intact
